"""HTTP routes: each translates a request, asks ``serving.decide``, and translates the answer."""
