package endpoint_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const serverName = "flow-producer.test.svc"

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	transporttest.Eventually(t, what, condition)
}

// flow is a producer behind real gRPC and TLS, and a proxy that clients dial.
type flow struct {
	authority *transporttest.Authority
	tokens    *transporttest.Tokens
	proxy     *transporttest.Proxy
	options   endpoint.ProducerOptions

	producer *endpoint.Producer
	stop     func()
	prepared func(*endpoint.Producer) // is called before Run
	server   []grpc.ServerOption
}

func fastConfig() delivery.ControllerConfig {
	config := delivery.DefaultControllerConfig()
	config.RetryInterval = 50 * time.Millisecond
	config.Heartbeat, config.Deadline = 200*time.Millisecond, 2*time.Second
	config.BackoffInitial, config.BackoffMax = 20*time.Millisecond, 200*time.Millisecond
	return config
}

func newFlow(t *testing.T, q queue.WorkQueue) *flow {
	t.Helper()
	f := &flow{authority: transporttest.NewAuthority(t), tokens: &transporttest.Tokens{}}
	f.options = endpoint.ProducerOptions{
		Config: fastConfig(), Queue: q, Owner: "test", Log: logr.Discard(),
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, Authenticator: f.tokens,
	}
	f.authority.Issue(t, serverName)
	f.proxy = transporttest.NewProxy(t, "")
	return f
}

// start runs the producer; stopping it twice is harmless.
func (f *flow) start(t *testing.T) {
	t.Helper()
	certFile, keyFile := f.authority.Issue(t, serverName)
	certificate, err := transport.NewCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.proxy.Retarget(listener.Addr().String())
	server := transport.NewServer(transport.ServerTLS(certificate), f.server...)
	f.producer = endpoint.NewProducer(f.options)
	f.producer.Register(server)
	if f.prepared != nil {
		f.prepared(f.producer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		_ = f.producer.Run(ctx)
	})
	running.Go(func() { _ = server.Serve(listener) })
	var once sync.Once
	f.stop = func() {
		once.Do(func() {
			cancel()
			<-ended
			server.Stop()
			running.Wait()
		})
	}
	t.Cleanup(f.stop)
}

func (f *flow) peer(t testing.TB, token string) transport.Peer {
	return transport.Peer{
		Address: f.proxy.Address(), TLS: transport.ClientTLS(f.authority.CAFile(), serverName), TokenFile: transporttest.TokenFile(t, token),
	}
}

// crew is a group of workers with a ledger of what their handlers did.
type crew struct {
	mu      sync.Mutex
	done    map[string]int // successful runs by MessageID
	running map[string]bool
	overlap []string // ids whose handler ran twice at once on one worker
}

func newCrew() *crew { return &crew{done: map[string]int{}, running: map[string]bool{}} }

// join starts a worker with the pod UID.
func (c *crew) join(t *testing.T, f *flow, uid string, handle func(context.Context, protocol.Delivery) endpoint.Result) (worker *endpoint.Worker, leave func()) {
	t.Helper()
	config := delivery.DefaultConsumerConfig()
	config.Concurrency, config.Window, config.ResendInterval = 4, 50, 200*time.Millisecond
	peer := f.peer(t, "pod:"+uid)
	worker = endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      config,
		Incarnation: protocol.Incarnation{PodUID: uid, BootNonce: endpoint.CryptoRandom{}.ID()},
		Flows: []endpoint.Source{{
			Dial: endpoint.DialPeer(func() transport.Peer { return peer }),
			Handler: endpoint.HandlerFunc(func(ctx context.Context, d protocol.Delivery) endpoint.Result {
				return c.handle(ctx, uid, d, handle)
			}),
		}},
		Log: logr.Discard(),
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	leave = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(leave)
	return worker, leave
}

func (c *crew) handle(ctx context.Context, uid string, d protocol.Delivery, handle func(context.Context, protocol.Delivery) endpoint.Result) endpoint.Result {
	key := uid + "/" + d.Job.MessageID
	c.mu.Lock()
	if c.running[key] {
		c.overlap = append(c.overlap, key)
	}
	c.running[key] = true
	c.mu.Unlock()
	result := handle(ctx, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, key)
	if result.Outcome == protocol.Confirmed {
		c.done[d.Job.MessageID]++
	}
	return result
}

func (c *crew) finished() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.done)
}

func succeed(context.Context, protocol.Delivery) endpoint.Result {
	return endpoint.Result{Outcome: protocol.Confirmed}
}

func jobNamed(id string) protocol.Job {
	return protocol.Job{MessageID: id, Headers: map[string]string{protocol.HeaderContentType: "text/plain"}, Payload: []byte("payload of " + id)}
}

// submit stores n jobs in batches, trying again until each is stored, as a submitter does.
func submit(t *testing.T, f *flow, from, n int) {
	t.Helper()
	const batch = 100
	for first := from; first < from+n; first += batch {
		var entries []endpoint.Submission
		for i := first; i < min(first+batch, from+n); i++ {
			job := jobNamed(fmt.Sprintf("job-%05d", i))
			entries = append(entries, endpoint.Submission{Job: job, Digest: endpoint.Digest(job)})
		}
		deadline := time.Now().Add(transporttest.Patience)
		for len(entries) > 0 {
			if time.Now().After(deadline) {
				t.Fatalf("%d jobs could not be stored", len(entries))
			}
			var again []endpoint.Submission
			for i, answer := range f.producer.SubmitBatch(t.Context(), entries) {
				if answer.Err != nil {
					again = append(again, entries[i])
					continue
				}
				answer.Receipt.Acknowledge()
			}
			entries = again
		}
	}
}

func (f *flow) stats(t *testing.T) endpoint.ProducerStats {
	t.Helper()
	stats, err := f.producer.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// settled waits until nothing is left to do.
func (f *flow) settled(t *testing.T) {
	t.Helper()
	eventually(t, "everything settled", func() bool {
		s := f.stats(t)
		return s.Phase == delivery.PhaseRunning && s.BacklogJobs+s.DelayedJobs+s.InFlight+s.DirtyConfirms == 0
	})
}

func (c *crew) check(t *testing.T, jobs int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) != jobs {
		t.Errorf("%d jobs done, want %d", len(c.done), jobs)
	}
	if len(c.overlap) > 0 {
		t.Errorf("handlers ran twice at once: %v", c.overlap)
	}
}

func (c *crew) repeats() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, times := range c.done {
		n += times - 1
	}
	return n
}
