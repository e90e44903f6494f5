package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl against one cluster.
type Kubectl struct {
	// Command is the program and its first arguments, for example ["kubectl"].
	Command []string
	// Kubeconfig is the file to use; empty means kubectl's own choice.
	Kubeconfig string
	// Echo receives each command line that changes something, for a person to repeat. Nil echoes nothing.
	Echo io.Writer
}

// FromEnvironment takes $KUBECTL, by default kubectl, and $KUBECONFIG.
func FromEnvironment() *Kubectl {
	command := strings.Fields(os.Getenv("KUBECTL"))
	if len(command) == 0 {
		command = []string{"kubectl"}
	}
	return &Kubectl{Command: command, Kubeconfig: os.Getenv("KUBECONFIG")}
}

// CommandError is a command that ended badly.
type CommandError struct {
	Args   []string
	Stderr string
	Err    error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s: %v\n%s", strings.Join(e.Args, " "), e.Err, strings.TrimSpace(e.Stderr))
}

func (e *CommandError) Unwrap() error { return e.Err }

func (k *Kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append(append([]string{}, k.Command[1:]...), args...)
	cmd := exec.CommandContext(ctx, k.Command[0], all...)
	cmd.Env = os.Environ()
	if k.Kubeconfig != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+k.Kubeconfig)
	}
	return cmd
}

// Stream runs kubectl with the given input and output; either may be nil.
func (k *Kubectl) Stream(ctx context.Context, input io.Reader, output io.Writer, args ...string) error {
	cmd := k.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, &stderr
	if err := cmd.Run(); err != nil {
		return &CommandError{append([]string{"kubectl"}, args...), stderr.String(), err}
	}
	return nil
}

// Get runs kubectl and returns what it printed.
func (k *Kubectl) Get(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := k.Stream(ctx, nil, &out, args...)
	return out.String(), err
}

// Do echoes a command line, runs it and echoes what it printed.
func (k *Kubectl) Do(ctx context.Context, args ...string) error {
	k.say("$ kubectl " + strings.Join(args, " "))
	out, err := k.Get(ctx, args...)
	if out = strings.TrimSpace(out); out != "" {
		k.say(indent(out))
	}
	return err
}

// Apply applies manifests given as text.
func (k *Kubectl) Apply(ctx context.Context, manifests string) error {
	return k.Stream(ctx, strings.NewReader(manifests), nil, "apply", "-f", "-")
}

// JSON runs `kubectl … -o json` and decodes its output.
func (k *Kubectl) JSON(ctx context.Context, into any, args ...string) error {
	out, err := k.Get(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("decoding the output of kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Proxy reads a path of a service or pod through the API server. target is for example "services/http:effects:80".
func (k *Kubectl) Proxy(ctx context.Context, namespace, target, path string) (string, error) {
	return k.Get(ctx, "get", "--raw", "/api/v1/namespaces/"+namespace+"/"+target+"/proxy"+path)
}

func (k *Kubectl) say(text string) {
	if k.Echo != nil {
		fmt.Fprintln(k.Echo, text)
	}
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
