package component

// Component is one process.
type Component struct {
	Name  string   `json:"name"`            // also the name of its log file
	Args  []string `json:"args"`            // the program's path and its arguments
	Env   []string `json:"env,omitempty"`   // NAME=value, beside the inherited ones
	After string   `json:"after,omitempty"` // network:address that must accept connections first, such as unix:/run/x.sock
}
