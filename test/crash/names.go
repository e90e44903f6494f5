package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers the names of Services with the addresses of their pods, as a headless Service does. It knows no other name.
type nameServer struct {
	conn   net.PacketConn
	lookup func(name string) []netip.Addr
}

// listenNames starts a name server; lookup gets names without the dot at the end, and nil means that there is no such name.
func listenNames(lookup func(name string) []netip.Addr) (*nameServer, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for names: %w", err)
	}
	n := &nameServer{conn: conn, lookup: lookup}
	go n.serve()
	return n, nil
}

func (n *nameServer) address() string { return n.conn.LocalAddr().String() }
func (n *nameServer) close() error    { return n.conn.Close() }

func (n *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if answer, err := n.answer(buffer[:size]); err == nil {
			_, _ = n.conn.WriteTo(answer, from) // who asked asks again
		}
	}
}

func (n *nameServer) answer(question []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil {
		return nil, err
	}
	message.Response, message.Authoritative, message.RCode = true, true, dnsmessage.RCodeSuccess
	message.Additionals = nil
	for _, q := range message.Questions {
		addresses := n.lookup(strings.TrimSuffix(q.Name.String(), "."))
		if addresses == nil {
			message.RCode = dnsmessage.RCodeNameError
		}
		if q.Type != dnsmessage.TypeA {
			continue
		}
		for _, a := range addresses {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	return message.Pack()
}

// resolver asks this server.
func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, n.address())
	}}
}
