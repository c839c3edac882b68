"""``/console``: one page for people, served from the package. It holds no data, so it needs no token; its API does."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse, RedirectResponse, Response

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parents[1] / "console"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline: names of nodes and pods come from users of the cluster.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def front_door() -> Response:
    return RedirectResponse("console")


@router.get("/console")
async def page() -> Response:
    return _file("index.html")


@router.get("/console/{name}")
async def part(name: str) -> Response:
    return _file(name)


def _file(name: str) -> Response:
    """A file of the folder by its bare name; there are no folders below it, so no path leads out of it."""
    file = FOLDER / name
    media_type = MEDIA_TYPES.get(file.suffix)
    if media_type is None or file.parent != FOLDER or not file.is_file():
        raise HTTPException(404, "Not Found")
    return FileResponse(file, media_type=media_type, headers=HEADERS)
