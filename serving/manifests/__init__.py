"""What puts Pilotfish beside a kube-scheduler: configuration, pods and roles as YAML, made from the settings."""
