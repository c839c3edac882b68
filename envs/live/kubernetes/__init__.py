"""The Kubernetes API as the live world reads it: lists and watches of raw JSON, and the binding of a pod."""
