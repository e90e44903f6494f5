package prestop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Hook is the user's own preStop hook: the JSON form of a Kubernetes LifecycleHandler. Exactly one field is set. A tcpSocket, which
// Kubernetes accepts for old times' sake and whose hooks fail when they run, fails here as well.
type Hook struct {
	Exec *struct {
		Command []string `json:"command"`
	} `json:"exec,omitempty"`
	HTTPGet *struct {
		Path        string          `json:"path"`
		Port        json.RawMessage `json:"port"`
		Host        string          `json:"host"`
		Scheme      string          `json:"scheme"`
		HTTPHeaders []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"httpHeaders"`
	} `json:"httpGet,omitempty"`
	Sleep *struct {
		Seconds int64 `json:"seconds"`
	} `json:"sleep,omitempty"`
}

// ParseHook decodes a hook; an empty text is a nil hook.
func ParseHook(text string) (*Hook, error) {
	if text == "" {
		return nil, nil
	}
	var hook Hook
	if err := json.Unmarshal([]byte(text), &hook); err != nil {
		return nil, fmt.Errorf("decoding the hook: %w", err)
	}
	if hook.Exec == nil && hook.HTTPGet == nil && hook.Sleep == nil {
		return nil, errors.New("the hook has none of exec, httpGet, sleep; Kubernetes runs no other")
	}
	return &hook, nil
}

// Run does what kubelet would have done. A nil hook does nothing.
func (h *Hook) Run(ctx context.Context) error {
	switch {
	case h == nil:
		return nil
	case h.Exec != nil:
		return h.exec(ctx)
	case h.HTTPGet != nil:
		return h.get(ctx)
	default:
		return pause(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
	}
}

func (h *Hook) exec(ctx context.Context) error {
	if len(h.Exec.Command) == 0 {
		return errors.New("the hook's command is empty")
	}
	command := exec.CommandContext(ctx, h.Exec.Command[0], h.Exec.Command[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("running the hook's command: %w", err)
	}
	return nil
}

func (h *Hook) get(ctx context.Context) error {
	host := h.HTTPGet.Host
	if host == "" {
		host = "127.0.0.1" // the pod's own address, as the app sees it
	}
	// The operator has resolved named ports, so the port is a number, perhaps in quotes.
	port := strings.Trim(string(h.HTTPGet.Port), `"`)
	scheme := strings.ToLower(h.HTTPGet.Scheme)
	if scheme == "" {
		scheme = "http"
	}
	url := scheme + "://" + net.JoinHostPort(host, port) + "/" + strings.TrimPrefix(h.HTTPGet.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("building the hook's request: %w", err)
	}
	for _, header := range h.HTTPGet.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value // as kubelet does; a header of that name would not be sent
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	answer, err := hookClient().Do(request)
	if err != nil {
		return fmt.Errorf("calling the hook: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the hook answered %d", answer.StatusCode)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
