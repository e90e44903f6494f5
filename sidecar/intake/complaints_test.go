package intake

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// sink is what the log of the process goes to.
type sink struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(line)
}

func (s *sink) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Count(s.out.Bytes(), []byte("\n"))
}

// say sends words over a connection that was said to be for HTTP/2, and hears the answer out.
func say(t *testing.T, address, caFile, words string) {
	config := transport.ClientTLS(caFile, "flow")
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, words); err != nil {
		t.Error(err)
	}
	_ = conn.CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
}

// Nobody knows a caller yet that says in the handshake that it speaks HTTP/2, and then does not.
func TestWhoBreaksHTTP2DoesNotFillTheLog(t *testing.T) {
	logged := new(sink)
	former := log.Writer()
	log.SetOutput(logged)
	defer log.SetOutput(former)
	authority := transporttest.NewAuthority(t)
	certificate, err := transport.NewCertificate(authority.Issue(t, "flow"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := ListenTLS("127.0.0.1:0", transport.ServerTLS(certificate), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, words := range []string{
		strings.Repeat("x", len(preface)),                                                         // no preface
		preface + "\x00\x00\x00\x06\x00\x00\x00\x00\x00",                                          // no settings first
		preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00", // a farewell without its body
	} {
		before := logged.lines()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { say(t, server.Address(), authority.CAFile(), words) })
		}
		callers.Wait()
		if lines := logged.lines() - before; lines > 1 {
			t.Errorf("%d lines about 20 connections that say %q", lines, words)
		}
	}
	if logged.lines() == 0 {
		t.Error("nothing was logged at all")
	}
}
