package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Orders say which components of a member are not to run. Whoever changes the file sends the member orderSignal, upon which it
// reads all of them: what counts is what they say, not how often they were sent.
type Orders struct {
	Stopped []string `json:"stopped,omitempty"`
}

const orderSignal = syscall.SIGHUP

// LoadOrders reads a file of orders; without one everything runs.
func LoadOrders(path string) (Orders, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Orders{}, nil
	}
	if err != nil {
		return Orders{}, fmt.Errorf("reading orders: %w", err)
	}
	var o Orders
	if err := json.Unmarshal(text, &o); err != nil {
		return Orders{}, fmt.Errorf("reading orders in %s: %w", path, err)
	}
	return o, nil
}

// Give replaces the file of orders and tells the member with the process id.
func (o Orders) Give(path string, pid int) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("writing orders: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return fmt.Errorf("writing orders: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing orders: %w", err)
	}
	if err := syscall.Kill(pid, orderSignal); err != nil {
		return fmt.Errorf("telling the member of its orders: %w", err)
	}
	return nil
}
