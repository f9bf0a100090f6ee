package client

// Files lists the shim's files in the order of their removal.
func Files() []string { return files() }
