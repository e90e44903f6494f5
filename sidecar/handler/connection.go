package handler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

const (
	// maxAnswerBytes is read of an answer's body so that its connection can be used again; a longer body costs the connection.
	maxAnswerBytes = 64 << 10
	// maxAnswerHead is about the largest head of an answer.
	maxAnswerHead = 1 << 20
	// maxInformed is how many answers may come before the final one, such as 100 Continue.
	maxInformed = 5
	// atOnceBytes is the size up to which a request is written before its answer is read: the kernel takes it, whatever the app does.
	// The writing of a larger one must not keep an app from answering before it has read all.
	atOnceBytes = 16 << 10
)

// errUnwritten says that not one byte of a request was written: it may be sent on another connection.
var errUnwritten = errors.New("the connection was closed before the request")

// connection is one of HTTP/1.1 to the app. The goroutine that has a request writes it and reads the answer: a transport of net/http hands
// both to goroutines of its own, which cost more than all else of a small request.
type connection struct {
	net.Conn
	raw    syscall.RawConn
	limit  *io.LimitedReader // bounds an answer
	reader *bufio.Reader
	buffer []byte      // of a request
	forget func() bool // unties it from the lifetime

	to    *address
	stale bool // belongs to connections

	peek  func(fd uintptr) bool
	quiet bool // is what peek has found
}

// connect opens a connection, which ends with lifetime at the latest.
func connect(lifetime context.Context, dialer *net.Dialer, to *address) (*connection, error) {
	conn, err := dialer.DialContext(lifetime, "tcp", to.dial)
	if err != nil {
		return nil, fmt.Errorf("connecting to the app: %w", err)
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to the app: %w", err)
	}
	limit := &io.LimitedReader{R: conn}
	c := &connection{Conn: conn, raw: raw, limit: limit, reader: bufio.NewReader(limit), to: to}
	c.peek = func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		c.quiet = errors.Is(err, syscall.EAGAIN)
		return true // whatever it is: do not wait
	}
	c.forget = context.AfterFunc(lifetime, func() { conn.Close() })
	return c, nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// usable reports whether the app has neither closed an unused connection nor said anything on it.
func (c *connection) usable() bool {
	c.quiet = false
	return c.raw.Read(c.peek) == nil && c.quiet
}

// exchange posts one delivery and takes the answer. The connection can be used again only if reusable says so; else it has to be closed.
func (c *connection) exchange(d *protocol.Delivery, source string) (result endpoint.Result, reusable bool, err error) {
	head, ok := c.to.appendHead(c.buffer[:0], d, source)
	c.buffer = head[:0]
	if !ok {
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "a header of the job cannot be sent"}, true, nil
	}
	body := d.Job.Payload
	if len(head)+len(body) <= atOnceBytes {
		head, body = append(head, body...), nil
		c.buffer = head[:0]
	}
	if n, err := c.Write(head); n == 0 {
		return result, false, errUnwritten
	} else if err != nil {
		return result, false, err
	}
	if len(body) == 0 {
		return c.answer()
	}
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(body)
		written <- err
	}()
	result, reusable, err = c.answer()
	select {
	case failed := <-written:
		return result, reusable && failed == nil, err
	default: // the app does not read the rest
		c.Close()
		<-written //nolint:errcheck // it was cut off
		return result, false, err
	}
}

// posted is what every answer answers.
var posted = &http.Request{Method: http.MethodPost}

// answer reads an answer, to the end if that is near.
func (c *connection) answer() (result endpoint.Result, reusable bool, err error) {
	c.limit.N = maxAnswerHead + maxAnswerBytes
	for range maxInformed + 1 {
		answer, err := http.ReadResponse(c.reader, posted) //nolint:bodyclose // that would read on; the end of the connection is the end of the body
		if err != nil {
			return result, false, err
		}
		if informs(answer.StatusCode) {
			continue
		}
		result, whole := outcome(answer), true
		if answer.Body != http.NoBody {
			switch _, err := io.CopyN(io.Discard, answer.Body, maxAnswerBytes); {
			case err == nil:
				whole = false
			case !errors.Is(err, io.EOF):
				return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's answer broke off"}, false, nil
			}
		}
		reusable = whole && !answer.Close && answer.StatusCode >= http.StatusOK && c.reader.Buffered() == 0
		return result, reusable, nil
	}
	return result, false, errors.New("the app does not come to an answer")
}

// informs reports whether an answer of this status is followed by another one.
func informs(status int) bool {
	return status >= http.StatusContinue && status < http.StatusOK && status != http.StatusSwitchingProtocols
}
