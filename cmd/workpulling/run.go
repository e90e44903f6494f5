package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/workpulling/workpulling/internal/standalone"
)

const runLong = `Run starts the flows and the worker pools of Kubernetes manifests on this machine: each flow with its queue and intake in this
process, each worker with its app as a child process. The manifests are those of a cluster, and are defaulted and validated as there.

An app is started with the command, args and env of its container, in the directory of its manifest; images are not run. It has to
listen on the port in the variable PORT of its environment, on 127.0.0.1 at least, so that several replicas live on one machine. A container without
a command gets one from --command. The producing app of a flow's producer.template is started in the same way.

The intake listens on a Unix socket, which needs no token, and on --listen, which asks for the token of this run; both are printed at
the start. Ctrl-C drains: workers finish what they run and hand back the rest. A second Ctrl-C ends at once.`

const runExample = `  # The flow and the pool of one directory, with two workers
  workpulling run -f config/samples/standalone --replicas words=2

  # A pool whose manifest names only an image
  workpulling run -f flow.yaml -f pool.yaml --command documents='python3 app.py'

  # In CI: end when every job is confirmed and none has come for ten seconds; exit code 3 if dead letters are left
  workpulling run -f flows/ --exit-when-empty=10s -o json

  # A queue in PostgreSQL; the connection string is read from a variable
  workpulling run -f flows/ --dsn orders=env:DATABASE_URL`

// runFlags are the flags of run.
type runFlags struct {
	manifests, replicas, commands, ports, environment, connections []string
	producerCommands, producerEnvironment                          []string
	data, listen, intakeToken, output, logLevel                    string
	quiet                                                          bool
	grace, exitWhenEmpty                                           time.Duration
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run -f FILE|DIR|-",
		Short:   "Run flows and their workers from manifests",
		Long:    runLong,
		Example: runExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := f.options(cmd)
			if err != nil {
				return &usageError{err}
			}
			return standalone.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.manifests, "filename", "f", nil, "manifest file, directory of manifests, or - for standard input; may be repeated")
	flags.StringArrayVar(&f.replicas, "replicas", nil, "POOL=N: how many workers to run")
	flags.StringArrayVar(&f.commands, "command", nil, "POOL=COMMAND: the shell command of the app, run in the current directory")
	flags.StringArrayVar(&f.ports, "port", nil, "POOL=PORT: the port of an app that does not heed PORT; one replica only")
	flags.StringArrayVar(&f.environment, "env", nil, "POOL=NAME=VALUE: a variable for the app, instead of the manifest's")
	flags.StringArrayVar(&f.producerCommands, "producer-command", nil, "FLOW=COMMAND: the shell command of the flow's producing app, run in the current directory")
	flags.StringArrayVar(&f.producerEnvironment, "producer-env", nil, "FLOW=NAME=VALUE: a variable for the producing app, instead of the manifest's")
	flags.StringArrayVar(&f.connections, "dsn", nil, "FLOW=env:NAME or FLOW=file:PATH: where the connection string of a PostgreSQL queue is")
	flags.StringVar(&f.data, "data", standalone.DefaultData, "directory of the queues and of what one run needs")
	flags.StringVar(&f.listen, "listen", standalone.DefaultListen, "loopback address of the intake, or none for the Unix socket alone")
	flags.StringVar(&f.intakeToken, "intake-token", tokenPerRun, "per-run, or none: everybody on this machine may then submit")
	flags.DurationVar(&f.exitWhenEmpty, "exit-when-empty", 0, "end when no job is left and none has come for so long (5s if no time is given)")
	flags.Lookup("exit-when-empty").NoOptDefVal = "5s"
	flags.DurationVar(&f.grace, "grace", 0, "time of an app between SIGTERM and SIGKILL (that of its template, else 10s)")
	flags.StringVarP(&f.output, "output", "o", outputText, "text, or json for one line a flow and second on standard output")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no status and no greeting; the output of apps and warnings remain")
	flags.StringVar(&f.logLevel, "log-level", "error", "of the runtime: debug, info or error")
	complete(cmd)
	return cmd
}

const (
	outputText  = "text"
	outputJSON  = "json"
	tokenPerRun = "per-run"
	tokenNone   = "none"
)

// complete tells shells what the values of flags can be.
func complete(cmd *cobra.Command) {
	must := func(err error) {
		if err != nil {
			panic(err) // a flag below is misspelt
		}
	}
	must(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
	must(cmd.MarkFlagDirname("data"))
	for flag, values := range map[string][]string{
		"output": {outputText, outputJSON}, "intake-token": {tokenPerRun, tokenNone}, "log-level": {"debug", "info", "error"},
	} {
		must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// options translates the flags.
func (f *runFlags) options(cmd *cobra.Command) (o standalone.Options, err error) {
	o = standalone.Options{
		Manifests: f.manifests, Stdin: cmd.InOrStdin(), Data: f.data, Listen: f.listen, OpenIntake: f.intakeToken == tokenNone,
		Grace: f.grace, ExitWhenEmpty: f.exitWhenEmpty, Environ: os.Environ(),
	}
	if len(f.manifests) == 0 {
		return o, errors.New("say what to run with -f FILE, -f DIR or -f -; see workpulling run --help")
	}
	if f.intakeToken != tokenNone && f.intakeToken != tokenPerRun {
		return o, fmt.Errorf("--intake-token %s: %s and %s are known", f.intakeToken, tokenPerRun, tokenNone)
	}
	if o.Replicas, err = standalone.Numbers("replicas", f.replicas, 0, 500); err != nil {
		return o, err
	}
	if o.Ports, err = standalone.Numbers("port", f.ports, 1, 65535); err != nil {
		return o, err
	}
	if o.Commands, err = standalone.Assignments("command", f.commands); err != nil {
		return o, err
	}
	if o.Connections, err = standalone.Assignments("dsn", f.connections); err != nil {
		return o, err
	}
	if o.Environment, err = standalone.Variables("env", f.environment); err != nil {
		return o, err
	}
	if o.ProducerCommands, err = standalone.Assignments("producer-command", f.producerCommands); err != nil {
		return o, err
	}
	if o.ProducerEnvironment, err = standalone.Variables("producer-env", f.producerEnvironment); err != nil {
		return o, err
	}
	if o.Screen, err = f.screen(); err != nil {
		return o, err
	}
	if o.Log, err = newLogger(f.logLevel, o.Screen); err != nil {
		return o, err
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("finding this program: %w", err)
	}
	o.Guard = []string{self, "guard"}
	return o, nil
}

// screen is standard error for people, and standard output for programs.
func (f *runFlags) screen() (*standalone.Screen, error) {
	screen := &standalone.Screen{Out: os.Stderr, Quiet: f.quiet}
	fd := int(os.Stderr.Fd())
	switch {
	case f.output == outputJSON:
		screen.Machine = os.Stdout
	case f.output != outputText:
		return nil, fmt.Errorf("--output %s: %s and %s are known", f.output, outputText, outputJSON)
	case term.IsTerminal(fd) && os.Getenv("TERM") != "dumb":
		screen.Live = true
		screen.Width = func() int {
			width, _, _ := term.GetSize(fd) // 0 is not known
			return width
		}
	}
	return screen, nil
}

// newLogger writes what the runtime logs on the screen, a line each.
func newLogger(level string, screen *standalone.Screen) (logr.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level: %w", err)
	}
	encoding := zap.NewDevelopmentEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.AddSync(screen.Log()), parsed)
	return zapr.NewLogger(zap.New(core)), nil
}
