"""JSON to the domain and back, nothing else: no decision is made here."""
