"""Who may ask: certificates, tokens, and the refusal to stand open to other machines without either."""
