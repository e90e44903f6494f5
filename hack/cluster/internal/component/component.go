package component

// Component is one process.
type Component struct {
	Name string   `json:"name"`          // also the name of its log file
	Args []string `json:"args"`          // the program's path and its arguments
	Env  []string `json:"env,omitempty"` // NAME=value, beside the inherited ones

	// After is what must hold before the start: unix:/path or tcp:host:port accepts connections, or ready:host:port is an
	// API server that is ready. Empty means nothing.
	After string `json:"after,omitempty"`
}
