package prestop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/workpulling/workpulling/sidecar/drain"
)

// retryEvery is how often a missing or restarting sidecar is asked again.
const retryEvery = 100 * time.Millisecond

// ErrNotDrained is returned when the time was up before the drain was over.
var ErrNotDrained = errors.New("the drain was not over in time")

// Wait asks the sidecar behind socket to drain and returns when that is done, or with ErrNotDrained after timeout.
func Wait(ctx context.Context, socket string, timeout time.Duration) (drain.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	var last error
	for {
		report, err := ask(ctx, client)
		if err == nil && report.Drained {
			return report, nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return report, errors.Join(ErrNotDrained, last)
		case <-time.After(retryEvery):
		}
	}
}

func ask(ctx context.Context, client *http.Client) (drain.Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sidecar/drain", http.NoBody)
	if err != nil {
		return drain.Report{}, fmt.Errorf("building the drain request: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return drain.Report{}, fmt.Errorf("asking the sidecar to drain: %w", err)
	}
	defer answer.Body.Close()
	return readReport(answer.Body)
}

// maxReport bounds the sidecar's answer, which has four small fields.
const maxReport = 4 << 10

func readReport(body io.Reader) (report drain.Report, err error) {
	if err := json.NewDecoder(io.LimitReader(body, maxReport)).Decode(&report); err != nil {
		return drain.Report{}, fmt.Errorf("reading the sidecar's answer: %w", err)
	}
	return report, nil
}
