package member

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
)

// Config is what a member does.
type Config struct {
	Hostname   string                `json:"hostname"`
	LogDir     string                `json:"logDir"`     // gets <component>.log and components.json
	Orders     string                `json:"orders"`     // file of Orders, which may change
	Keep       []string              `json:"keep"`       // directories that stay visible although a parent is hidden
	Binds      []Bind                `json:"binds"`      // in this order
	Forward    bool                  `json:"forward"`    // pass on packets, as nodes do
	Components []component.Component `json:"components"` // started in this order
}

// Bind shows a directory of the machine at another place.
type Bind struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Send writes the configuration to a member that waits for it.
func (c Config) Send(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(c); err != nil {
		return fmt.Errorf("sending %s its configuration: %w", c.Hostname, err)
	}
	return nil
}

// receive waits for the configuration.
func receive(r io.Reader) (Config, error) {
	var c Config
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return Config{}, fmt.Errorf("receiving the configuration: %w", err)
	}
	return c, nil
}
