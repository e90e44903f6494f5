package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// RabbitMQ is a quorum queue on a private node.
type RabbitMQ struct{}

const (
	rabbitQueue = "jobs"
	// rabbitPrefetch is what a worker may hold unacknowledged: a window's worth of 50 is slower.
	rabbitPrefetch = 500
	// rabbitAckEvery is how many jobs one acknowledgement covers at most; one is sent at once when nothing more has come.
	rabbitAckEvery = 32
	// rabbitChannels publish at once.
	rabbitChannels = 4
	// noSpinning keeps the Erlang scheduler from burning the cores that producer and workers share with it.
	noSpinning = "+sbwt none +sbwtdcpu none +sbwtdio none"
)

// Name implements trial.System.
func (*RabbitMQ) Name() string { return "rabbitmq-quorum" }

// Settings implements trial.System.
func (*RabbitMQ) Settings() string {
	version := "RabbitMQ"
	if program, err := rabbitProgram(); err == nil {
		version = filepath.Base(filepath.Dir(filepath.Dir(program)))
	}
	return fmt.Sprintf("a private node of %s with one quorum queue, no TLS, %s; persistent messages on %d channels, publisher confirms awaited in batches; "+
		"manual acks, up to %d jobs each, prefetch %d a worker", version, noSpinning, rabbitChannels, rabbitAckEvery, rabbitPrefetch)
}

// rabbitProgram is the script that runs as whoever starts it. The one in the PATH of Debian changes to another user.
func rabbitProgram() (string, error) {
	found, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil || len(found) == 0 {
		return "", errors.New("RabbitMQ is not installed: hack/setup.sh bench")
	}
	return slices.Max(found), nil
}

// Available implements trial.System.
func (*RabbitMQ) Available() error {
	_, err := rabbitProgram()
	return err
}

// Processes implements trial.System.
func (*RabbitMQ) Processes(s *trial.Stage) []trial.Process {
	return append([]trial.Process{{Name: "broker", Serve: []string{"broker"}}}, trial.TwoProcesses(s)...)
}

// Serve implements trial.System.
func (*RabbitMQ) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	program, err := rabbitProgram()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	environment := rabbitEnvironment(s, ports)
	// The node would start a daemon that outlives it; this one ends with the trial.
	names, err := startServer(withEnvironment(exec.Command("epmd", "-address", "127.0.0.1", "-port", ports[2]), environment)) //nolint:noctx // ended by stop
	if err != nil {
		return nil, err
	}
	broker, err := startServer(withEnvironment(exec.Command(program), environment)) //nolint:noctx // ended by stop
	if err != nil {
		return nil, errors.Join(err, names.stop())
	}
	stop := func() error { return errors.Join(broker.stop(), names.stop()) }
	url := "amqp://guest:guest@127.0.0.1:" + ports[0] + "/"
	if err := broker.answers(ctx, func() error { return declare(url) }); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, s.Tell("rabbitmq", url)
}

// rabbitEnvironment keeps everything of the node in the directory of the trial and on loopback. ports are of AMQP, of Erlang, and of epmd.
func rabbitEnvironment(s *trial.Stage, ports []string) []string {
	return append(os.Environ(),
		"HOME="+s.Dir, "RABBITMQ_NODENAME=bench@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT="+ports[0],
		"RABBITMQ_DIST_PORT="+ports[1], "ERL_EPMD_PORT="+ports[2], "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE="+s.Path("mnesia"), "RABBITMQ_LOG_BASE="+s.Path("log"), "RABBITMQ_LOGS=-", "RABBITMQ_LOG=warning",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+s.Path("plugins"), "RABBITMQ_CONFIG_FILE="+s.Path("none"), "RABBITMQ_CONF_ENV_FILE="+s.Path("none"),
		"RABBITMQ_PID_FILE="+s.Path("pid"), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+noSpinning+" -kernel inet_dist_use_interface {127,0,0,1}")
}

func withEnvironment(command *exec.Cmd, environment []string) *exec.Cmd {
	command.Env = environment
	return command
}

// freePorts holds all of them until it has the last, so that they differ.
func freePorts(n int) (ports []string, err error) {
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, listener)
		ports = append(ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// declare makes the queue.
func declare(url string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = channel.QueueDeclare(rabbitQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return err
}

// Produce implements trial.System.
func (*RabbitMQ) Produce(_ context.Context, s *trial.Stage) (trial.Submitter, error) {
	url, err := s.Told("rabbitmq")
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	p := &rabbitSubmitter{conn: conn, channels: make(chan *amqp.Channel, rabbitChannels)}
	for range rabbitChannels {
		channel, err := conn.Channel()
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if err := channel.Confirm(false); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		p.channels <- channel
	}
	return p, nil
}

// rabbitSubmitter publishes on whichever channel is free; confirms are awaited while others publish on it.
type rabbitSubmitter struct {
	conn     *amqp.Connection
	channels chan *amqp.Channel
}

// Pace implements trial.Submitter.
func (*rabbitSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 8, Batch: 128} }

// Close implements trial.Submitter.
func (p *rabbitSubmitter) Close() error { return p.conn.Close() }

// Submit implements trial.Submitter.
func (p *rabbitSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	channel := <-p.channels
	confirms := make([]*amqp.DeferredConfirmation, 0, len(jobs))
	var failure error
	for _, j := range jobs {
		confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", rabbitQueue, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: "application/octet-stream", Body: j.Payload,
		})
		if err != nil {
			failure = err
			break
		}
		confirms = append(confirms, confirm)
	}
	p.channels <- channel
	for _, confirm := range confirms {
		ok, err := confirm.WaitContext(ctx)
		if failure == nil && (err != nil || !ok) {
			failure = errors.Join(errors.New("a message was not confirmed"), err)
		}
	}
	return failure
}

// Consume implements trial.System.
func (*RabbitMQ) Consume(_ context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	url, err := s.Told("rabbitmq")
	if err != nil {
		return nil, err
	}
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := channel.Qos(rabbitPrefetch, 0, false); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	deliveries, err := channel.Consume(rabbitQueue, fmt.Sprintf("worker-%d", worker), false, false, false, false, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var working sync.WaitGroup
	working.Go(func() { acknowledge(deliveries, handle) })
	return func() error {
		err := conn.Close()
		working.Wait()
		return err
	}, nil
}

// acknowledge handles one job after the other. One acknowledgement covers what came together.
func acknowledge(deliveries <-chan amqp.Delivery, handle func([]byte)) {
	open := 0
	for d := range deliveries {
		handle(d.Body)
		if open++; open >= rabbitAckEvery || len(deliveries) == 0 {
			_ = d.Ack(true) // what is not acknowledged comes again, and fails the trial
			open = 0
		}
	}
}
