package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// receipt is what the intake made of a document.
type receipt struct {
	// ID is the message id: the deduplication key of the job.
	ID string `json:"id"`
	// State is stored, confirmed or dead-lettered.
	State string `json:"state"`
	// New is false where an earlier submission of the same id was accepted: the answer to it had been lost.
	New bool `json:"new"`
	// repeats counts submissions after the first.
	repeats int
}

// refusedError says that the intake will never take this document.
type refusedError struct {
	status string
	detail string
}

func (e *refusedError) Error() string { return "refused with " + e.status + ": " + e.detail }

// intakeClient submits documents to one flow.
type intakeClient struct {
	jobs   string // URL of the flow's jobs
	client *http.Client
	// tokenFile is read for every request, because the kubelet replaces it before it ends. Empty: no token.
	tokenFile string
	// source is the ce-source; message ids are unique within it.
	source string
}

// socketIntake reaches the producer sidecar of the same pod; no token is needed there.
func socketIntake(socket, flow, source string) *intakeClient {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	return &intakeClient{
		jobs:   "http://intake/v1/flows/" + flow + "/jobs",
		client: &http.Client{Transport: transport, Timeout: 30 * time.Second},
		source: source,
	}
}

// httpsIntake reaches the intake Service with the cluster's ServiceAccount token and the CA of Workpulling.
func httpsIntake(url, flow, source, caFile, tokenFile string, connections int) (*intakeClient, error) {
	bundle, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the intake: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	transport := &http.Transport{
		// A transport with its own TLS settings speaks HTTP/1.1: one connection for each running request.
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		MaxIdleConnsPerHost: connections,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	return &intakeClient{
		jobs:      strings.TrimSuffix(url, "/") + "/v1/flows/" + flow + "/jobs",
		client:    &http.Client{Transport: transport, Timeout: 30 * time.Second},
		tokenFile: tokenFile,
		source:    source,
	}, nil
}

// submit repeats one document under one id until the intake has answered for it. Only a *refusedError or the end of ctx
// stops it.
func (c *intakeClient) submit(ctx context.Context, id string, document []byte) (receipt, error) {
	return c.persist(ctx, id, func() (receipt, time.Duration, error) { return c.try(ctx, id, document) })
}

// confirmed asks for the state of one document until it is confirmed.
func (c *intakeClient) confirmed(ctx context.Context, id string) (receipt, error) {
	return c.persist(ctx, id, func() (receipt, time.Duration, error) {
		r, wait, err := c.look(ctx, id)
		if err == nil && r.State == "stored" {
			err = errors.New("the job is stored, not confirmed yet")
		}
		if err == nil && r.State != "confirmed" {
			err = &refusedError{"state " + r.State, "a person has to decide about it"}
		}
		return r, wait, err
	})
}

// persist repeats a request until it succeeds, is refused, or ctx ends.
func (c *intakeClient) persist(ctx context.Context, id string, request func() (receipt, time.Duration, error)) (receipt, error) {
	for repeats := 0; ; repeats++ {
		r, wait, err := request()
		r.repeats = repeats
		if refused := (*refusedError)(nil); err == nil || errors.As(err, &refused) {
			return r, err
		}
		if wait == 0 {
			// Doubling from 100 ms to 5 s, with jitter, so that many submitters do not come back together.
			wait = min(100*time.Millisecond<<min(repeats, 6), 5*time.Second)
			wait = wait/2 + rand.N(wait)
		}
		if repeats == 5 {
			slog.Warn("still trying", "id", id, "error", err)
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("submitting %s: %w", id, errors.Join(ctx.Err(), err))
		case <-time.After(wait):
		}
	}
}

// try submits once. wait is the pause that the intake asked for, zero where it said nothing.
func (c *intakeClient) try(ctx context.Context, id string, document []byte) (r receipt, wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.jobs, bytes.NewReader(document))
	if err != nil {
		return r, 0, &refusedError{"no request", err.Error()}
	}
	request.Header.Set("Ce-Specversion", "1.0")
	request.Header.Set("Ce-Id", id)
	request.Header.Set("Ce-Source", c.source)
	request.Header.Set("Ce-Type", "dev.workpulling.sample.document")
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	return c.send(request)
}

// look asks once for the state of a document. Its message id is the rule of CloudEvents: source and id.
func (c *intakeClient) look(ctx context.Context, id string) (r receipt, wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.jobs+"/"+url.PathEscape(c.source+"|"+id), http.NoBody)
	if err != nil {
		return r, 0, &refusedError{"no request", err.Error()}
	}
	return c.send(request)
}

func (c *intakeClient) send(request *http.Request) (r receipt, wait time.Duration, err error) {
	if err := c.authorise(request); err != nil {
		return r, 0, err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return r, 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return r, 0, err
	}
	switch status := answer.StatusCode; {
	case status == http.StatusOK || status == http.StatusCreated || status == http.StatusAccepted:
		if err := json.Unmarshal(body, &r); err != nil {
			return r, 0, fmt.Errorf("the intake's answer is not understood: %w", err)
		}
		return r, 0, nil
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return r, time.Duration(min(max(seconds, 0), 30)) * time.Second, fmt.Errorf("the intake answered %s", answer.Status)
	default:
		return r, 0, &refusedError{answer.Status, strings.TrimSpace(string(body))}
	}
}

func (c *intakeClient) authorise(request *http.Request) error {
	if c.tokenFile == "" {
		return nil
	}
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}
