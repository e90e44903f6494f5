package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Storage is what a JetStream stream promises.
type Storage string

const (
	InMemory   Storage = "memory"
	InFile     Storage = "file"        // written before the acknowledgement, synced every two minutes: the default
	SyncAlways Storage = "file-always" // synced before the acknowledgement
)

// JetStream is a work queue of NATS with its server embedded in the producer's process.
type JetStream struct {
	Storage Storage
	server  *natsserver.Server
}

// Names of the stream, its only subject and its only consumer, which all workers share.
const (
	streamName   = "bench"
	subjectName  = "jobs"
	consumerName = "workers"
)

// Name implements trial.System.
func (j *JetStream) Name() string { return "jetstream-" + string(j.Storage) }

// Settings implements trial.System.
func (j *JetStream) Settings() string {
	return fmt.Sprintf("NATS %s embedded in the producer's process, work-queue retention, %s, one replica, no TLS; producer over loopback, "+
		"async publish in batches; one durable pull consumer shared by all workers, explicit ack of each job, batches of %d, max ack pending %d",
		natsserver.VERSION, map[Storage]string{
			InMemory: "memory storage", InFile: "file storage with its default sync interval of two minutes", SyncAlways: "file storage, sync always",
		}[j.Storage], pullBatch, maxAckPending)
}

const (
	// pullBatch is how many jobs a worker asks for ahead: with a window's worth of 50 it is slower.
	pullBatch = 500
	// maxAckPending leaves room for all batches of 16 workers.
	maxAckPending = 20_000
)

// Available implements trial.System.
func (*JetStream) Available() error { return nil }

// Processes implements trial.System.
func (*JetStream) Processes(s *trial.Stage) []trial.Process { return trial.TwoProcesses(s, "server") }

// Serve implements trial.System.
func (j *JetStream) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: s.Path("jetstream"), NoSigs: true, NoLog: true,
		SyncAlways: j.Storage == SyncAlways,
	})
	if err != nil {
		return nil, fmt.Errorf("making the server: %w", err)
	}
	j.server = server
	go server.Start()
	stop := func() error {
		server.Shutdown()
		server.WaitForShutdown()
		return nil
	}
	if !server.ReadyForConnections(20 * time.Second) {
		return nil, errors.Join(errors.New("the server takes no connections"), stop())
	}
	if err := j.createStream(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, s.Tell("nats", server.ClientURL())
}

func (j *JetStream) createStream(ctx context.Context) error {
	conn, js, err := connect(j.server.ClientURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	storage := jetstream.FileStorage
	if j.Storage == InMemory {
		storage = jetstream.MemoryStorage
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subjectName}, Retention: jetstream.WorkQueuePolicy, Storage: storage,
	})
	if err != nil {
		return fmt.Errorf("making the stream: %w", err)
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: maxAckPending,
	})
	if err != nil {
		return fmt.Errorf("making the consumer: %w", err)
	}
	return nil
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(trial.Backlog))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// Produce implements trial.System.
func (j *JetStream) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	conn, js, err := connect(j.server.ClientURL())
	if err != nil {
		return nil, err
	}
	return &natsSubmitter{conn, js}, nil
}

type natsSubmitter struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

// Pace implements trial.Submitter.
func (*natsSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 8, Batch: 128} }

// Close implements trial.Submitter.
func (n *natsSubmitter) Close() error {
	n.conn.Close()
	return nil
}

// Submit implements trial.Submitter.
func (n *natsSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	acks := make([]jetstream.PubAckFuture, len(jobs))
	for i, job := range jobs {
		var err error
		if acks[i], err = n.js.PublishAsync(subjectName, job.Payload); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Consume implements trial.System.
func (j *JetStream) Consume(ctx context.Context, s *trial.Stage, _ int, handle func([]byte)) (func() error, error) {
	url, err := s.Told("nats")
	if err != nil {
		return nil, err
	}
	conn, js, err := connect(url)
	if err != nil {
		return nil, err
	}
	consumer, err := js.Consumer(ctx, streamName, consumerName)
	if err != nil {
		return nil, err
	}
	consuming, err := consumer.Consume(func(message jetstream.Msg) {
		handle(message.Data())
		_ = message.Ack() // what is not acknowledged comes again, and fails the trial
	}, jetstream.PullMaxMessages(pullBatch))
	if err != nil {
		return nil, err
	}
	return func() error {
		consuming.Stop()
		<-consuming.Closed()
		conn.Close()
		return nil
	}, nil
}
