package bounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// HTTPRelay is a bare relay with net/http on every hop, a request a job: producing app, relay, relay beside the workers, worker app. A job is
// accepted once the first relay has it, in memory or in its log.
type HTTPRelay struct{ Durable bool }

// Name implements trial.System.
func (r *HTTPRelay) Name() string {
	if r.Durable {
		return "relay-http-durable"
	}
	return "relay-http"
}

// Settings implements trial.System.
func (r *HTTPRelay) Settings() string {
	store := "in memory"
	if r.Durable {
		store = "group-committed log with fdatasync"
	}
	return fmt.Sprintf("net/http without TLS on every hop, one job a request, %d requests of each worker at once; producing app, relay, relay beside the "+
		"workers, worker app; %s; neither redelivery nor fencing", httpRequests, store)
}

// httpRequests is how many requests of one worker are under way at once, as with the sidecars.
const httpRequests = 16

// Available implements trial.System.
func (*HTTPRelay) Available() error { return nil }

// Processes implements trial.System. Each hop posts to the next, so the last comes first.
func (*HTTPRelay) Processes(s *trial.Stage) []trial.Process {
	return append(trial.Workers(s), trial.Process{Name: "hop", Serve: []string{"hop"}}, trial.Process{Name: "hub", Serve: []string{"hub"}},
		trial.Process{Name: "producer", Produces: true})
}

// Serve implements trial.System.
func (r *HTTPRelay) Serve(ctx context.Context, s *trial.Stage, role string) (func() error, error) {
	if role == "hop" {
		return r.serveHop(s)
	}
	var log *commitLog
	if r.Durable {
		var err error
		if log, err = openLog(s.Path("log")); err != nil {
			return nil, err
		}
	}
	hop, err := s.Told(toldHop)
	if err != nil {
		return nil, err
	}
	h := newHub(log)
	senders := startSenders(ctx, s, h, hop)
	stopServer, err := serveHTTP("unix", s.Path("door.sock"), nil, func(_ *http.Request, body []byte) error {
		return h.put([]*pb.Delivery{{Job: &pb.Job{Payload: body}}})
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		err := errors.Join(stopServer(), h.close())
		senders.Wait()
		return err
	}, nil
}

// startSenders posts what the hub has, as many at once as all workers take.
func startSenders(ctx context.Context, s *trial.Stage, h *hub, hop string) *sync.WaitGroup {
	senders := new(sync.WaitGroup)
	client := httpClient("", s.Workers*httpRequests)
	for worker := range s.Workers {
		for range httpRequests {
			senders.Go(func() {
				for {
					jobs := h.take(func() int { return 1 })
					if jobs == nil {
						return
					}
					_ = post(ctx, client, fmt.Sprintf("http://%s/%d", hop, worker), jobs[0].Job.Payload) // a job that is lost fails the trial
				}
			})
		}
	}
	return senders
}

// serveHop passes requests on to the app of their worker.
func (*HTTPRelay) serveHop(s *trial.Stage) (func() error, error) {
	apps := map[string]string{}
	for worker := range s.Workers {
		address, err := s.Told(fmt.Sprintf("app-%d", worker))
		if err != nil {
			return nil, err
		}
		apps[fmt.Sprintf("/%d", worker)] = "http://" + address + "/jobs"
	}
	client := httpClient("", s.Workers*httpRequests)
	return serveHTTP("tcp", "127.0.0.1:0", func(address string) error { return s.Tell(toldHop, address) }, func(r *http.Request, body []byte) error {
		return post(r.Context(), client, apps[r.URL.Path], body)
	})
}

// serveHTTP answers requests: 200 where take has taken the body.
func serveHTTP(network, address string, tell func(string) error, take func(*http.Request, []byte) error) (stop func() error, err error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = take(r, body)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = func() error {
		err := server.Close()
		serving.Wait()
		return err
	}
	if tell == nil {
		return stop, nil
	}
	return stop, tell(listener.Addr().String())
}

// httpClient keeps as many connections as there are requests; socket is a Unix socket to post to, or empty.
func httpClient(socket string, connections int) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return &http.Client{Transport: transport}
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New("the next hop answered " + answer.Status)
	}
	return nil
}

// Consume implements trial.System.
func (*HTTPRelay) Consume(_ context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	return serveHTTP("tcp", "127.0.0.1:0", func(address string) error { return s.Tell(fmt.Sprintf("app-%d", worker), address) },
		func(_ *http.Request, body []byte) error {
			handle(body)
			return nil
		})
}

// Produce implements trial.System.
func (*HTTPRelay) Produce(_ context.Context, s *trial.Stage) (trial.Submitter, error) {
	return httpDoor{httpClient(s.Path("door.sock"), 64)}, nil
}

type httpDoor struct{ client *http.Client }

// Pace implements trial.Submitter.
func (httpDoor) Pace() trial.Pace { return trial.Pace{Callers: 64, Batch: 1} }

// Close implements trial.Submitter.
func (d httpDoor) Close() error {
	d.client.CloseIdleConnections()
	return nil
}

// Submit implements trial.Submitter.
func (d httpDoor) Submit(ctx context.Context, jobs []trial.Job) error {
	for _, j := range jobs {
		if err := post(ctx, d.client, "http://door/", j.Payload); err != nil {
			return err
		}
	}
	return nil
}
