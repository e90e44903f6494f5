package ours

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Consume implements trial.System: an app that answers 200 to each job, or takes its jobs from a stream.
func (s *Sidecars) Consume(_ context.Context, stage *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	if s.Streams {
		return consumeStream(stage, worker, handle)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(body)
		body.Reset()
		if _, err := body.ReadFrom(r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		handle(body.Bytes())
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop := func() error {
		err := server.Close()
		serving.Wait()
		return err
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	return stop, stage.Tell(fmt.Sprintf("%s-%d", toldApp, worker), port)
}

// Produce implements trial.System: an app beside the producer sidecar.
func (s *Sidecars) Produce(_ context.Context, stage *trial.Stage) (trial.Submitter, error) {
	if s.Streams {
		return openProduceStreams(stage)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", stage.Path("intake.sock"))
	}
	return &httpSubmitter{&http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64, DisableCompression: true}}}, nil
}

// httpSubmitter posts jobs to the intake.
type httpSubmitter struct{ client *http.Client }

// Pace implements trial.Submitter.
func (*httpSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 8, Batch: 128} }

// Close implements trial.Submitter.
func (h *httpSubmitter) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

// Submit implements trial.Submitter: one job as a plain body, several as a batch of CloudEvents.
func (h *httpSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	if len(jobs) == 1 {
		header := http.Header{"Idempotency-Key": {jobs[0].ID()}, "Content-Type": {"application/octet-stream"}}
		_, err := h.post(ctx, header, jobs[0].Payload)
		return err
	}
	answer, err := h.post(ctx, http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, encodeBatch(jobs))
	if err != nil {
		return err
	}
	var outcomes []struct {
		New    bool `json:"new"`
		Status int  `json:"status"`
	}
	if err := json.Unmarshal(answer, &outcomes); err != nil {
		return fmt.Errorf("reading the answer to a batch: %w", err)
	}
	if len(outcomes) != len(jobs) {
		return fmt.Errorf("%d answers to %d jobs", len(outcomes), len(jobs))
	}
	for _, o := range outcomes {
		if !o.New {
			return fmt.Errorf("a job was not taken: status %d", o.Status)
		}
	}
	return nil
}

func (h *httpSubmitter) post(ctx context.Context, header http.Header, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://intake/v1/flows/"+flowName+"/jobs", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	answer, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = errors.New("the intake answered " + answer.Status + ": " + string(text))
	}
	return text, err
}

// encodeBatch writes jobs as a batch of CloudEvents.
func encodeBatch(jobs []trial.Job) []byte {
	batch := make([]byte, 0, len(jobs)*(160+base64.StdEncoding.EncodedLen(len(jobs[0].Payload))))
	separator := byte('[')
	for _, j := range jobs {
		batch = append(batch, separator)
		batch = append(batch, `{"specversion":"1.0","source":"/bench","type":"bench.job","id":"`...)
		batch = append(batch, j.ID()...)
		batch = append(batch, `","datacontenttype":"application/octet-stream","data_base64":"`...)
		batch = base64.StdEncoding.AppendEncode(batch, j.Payload)
		batch = append(batch, `"}`...)
		separator = ','
	}
	return append(batch, ']')
}
