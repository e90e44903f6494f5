package standalone

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Options say what to run and how. Manifests are required; the other zero values mean the defaults stated.
type Options struct {
	// Manifests are files, directories, and "-" for Stdin.
	Manifests []string
	Stdin     io.Reader
	// Data is the directory of queues that outlive a run (./workpulling-data). One run uses it at a time.
	Data string
	// Listen is the loopback address of the intake (127.0.0.1:8080); "none" for the Unix socket alone.
	Listen string
	// OpenIntake lets everybody who reaches Listen submit without a token.
	OpenIntake bool
	// Replicas, Commands, Ports and Environment change pools by name: how many workers, a shell command for the app, the only port
	// that an app of one replica can listen on, and more variables (NAME=VALUE).
	Replicas    map[string]int
	Commands    map[string]string
	Ports       map[string]int
	Environment map[string][]string
	// ProducerCommands and ProducerEnvironment are that for the producing apps of flows, by the name of the flow.
	ProducerCommands    map[string]string
	ProducerEnvironment map[string][]string
	// Connections are the sources of the connection strings of PostgreSQL flows by name: env:NAME or file:PATH.
	Connections map[string]string
	// Grace is how long an app may take to end after SIGTERM (what the terminationGracePeriodSeconds of its template
	// has beyond the drain; 10 s without one).
	Grace time.Duration
	// ExitWhenEmpty ends the run when no job is left and none has come for so long; 0 is never.
	ExitWhenEmpty time.Duration
	// Guard is the program, with its arguments, that runs Guard on its standard input.
	Guard []string
	// Environ is the environment that apps inherit, as os.Environ gives it.
	Environ []string
	// Screen shows progress and the output of apps.
	Screen *Screen
	Log    logr.Logger
	Clock  clock.WithTicker
}

// Defaults of Options.
const (
	DefaultData   = "workpulling-data"
	DefaultListen = "127.0.0.1:8080"
	defaultGrace  = 10 * time.Second
)

// NoListen is the value of Options.Listen without a TCP listener.
const NoListen = "none"

func (o *Options) setDefaults() {
	if o.Data == "" {
		o.Data = DefaultData
	}
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Stdin == nil {
		o.Stdin = strings.NewReader("")
	}
}

// Assignments parses values of the form NAME=VALUE, each name once.
func Assignments(flag string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range values {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("--%s %q is not of the form NAME=VALUE", flag, text)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("--%s names %s twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

// Numbers parses values of the form NAME=NUMBER between low and high.
func Numbers(flag string, values []string, low, high int) (map[string]int, error) {
	texts, err := Assignments(flag, values)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for name, text := range texts {
		number, err := strconv.Atoi(text)
		if err != nil || number < low || number > high {
			return nil, fmt.Errorf("--%s %s=%s: a number between %d and %d is needed", flag, name, text, low, high)
		}
		out[name] = number
	}
	return out, nil
}

// Variables parses values of the form POOL=NAME=VALUE.
func Variables(flag string, values []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, text := range values {
		pool, variable, _ := strings.Cut(text, "=")
		name, _, ok := strings.Cut(variable, "=")
		if pool == "" || name == "" || !ok {
			return nil, fmt.Errorf("--%s %q is not of the form POOL=NAME=VALUE", flag, text)
		}
		out[pool] = append(out[pool], variable)
	}
	return out, nil
}
