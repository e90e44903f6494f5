package surface

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	_ "github.com/workpulling/workpulling/runtime/protocol/app/v1" // its services
	_ "github.com/workpulling/workpulling/runtime/protocol/v1"     // its services
)

// grpcListeners are those that the table is tried on over gRPC, with the names that their certificates prove.
var grpcListeners = map[listener]string{
	operatorReports: operatorHost, producerStreams: producerHost, workerControl: workerHost, producerSocket: "", appSocket: "",
}

// services are those of the wire schemas: package.Service/Method of each, and whether callers send a stream.
func services() map[string]bool {
	methods := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "workpulling.") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				methods[string(service.FullName())+"/"+string(method.Name())] = method.IsStreamingClient()
			}
		}
		return true
	})
	return methods
}

// tryGRPC tries every method of every service on a listener.
func (w *world) tryGRPC(t *testing.T, at listener, as credential) {
	t.Helper()
	handshake := w.handshake(at, as)
	conn := w.dialGRPC(at, as)
	defer conn.Close()
	for what, streams := range services() {
		r, want := find(at, what), absent
		if r != nil {
			want = r.outcome(t, as)
		}
		if as == plain && grpcListeners[at] != "" {
			want = noTLS
		}
		got := handshake
		if r == nil && handshake != "" {
			want = handshake // the door stays shut, whatever is behind it
		}
		if got == "" {
			got = w.callGRPC(conn, what, streams, as)
		}
		if got != want {
			t.Errorf("%s: %s as %s is %s, want %s", at, what, as, got, want)
		}
	}
}

// handshake is why a server ends the handshake, "" where it does not.
func (w *world) handshake(at listener, as credential) string {
	w.t.Helper()
	host := grpcListeners[at]
	if host == "" || as == plain {
		return ""
	}
	config := w.clientTLS(as, host)
	config.NextProtos = []string{"h2"}
	conn, err := tls.DialWithDialer(&net.Dialer{LocalAddr: as.from()}, "tcp", w.at[at], config)
	if err == nil {
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = conn.Read(make([]byte, 1)) // the first word of the server, or its alert
	}
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "certificate required"):
		return required
	case strings.Contains(err.Error(), "bad certificate"):
		return badCert
	}
	return err.Error()
}

func (w *world) dialGRPC(at listener, as credential) *grpc.ClientConn {
	w.t.Helper()
	network, secure := "tcp", insecure.NewCredentials()
	dialer := &net.Dialer{LocalAddr: as.from()}
	if host := grpcListeners[at]; host == "" {
		network, dialer = "unix", &net.Dialer{}
	} else if as != plain {
		secure = credentials.NewTLS(w.clientTLS(as, host))
	}
	conn, err := grpc.NewClient("passthrough:///"+w.at[at], grpc.WithTransportCredentials(secure), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// labelOf finds the name of a refusal in its text, as transport.Refusal writes it.
var labelOf = regexp.MustCompile(`^[a-z-]+ \(([a-z-]+)\): `)

// callGRPC calls a method with nothing in it. Of a stream it sends nothing but the end.
func (w *world) callGRPC(conn *grpc.ClientConn, what string, streams bool, as credential) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if token := w.bearer(as); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+what)
	if err == nil && !streams {
		err = stream.SendMsg(&emptypb.Empty{})
	}
	if err == nil || errors.Is(err, io.EOF) { // EOF: the end came before we were done, and Recv tells why
		_ = stream.CloseSend()
		for err = nil; err == nil; { // whatever it says before the end
			err = stream.RecvMsg(&emptypb.Empty{})
		}
	}
	if found := labelOf.FindStringSubmatch(status.Convert(err).Message()); found != nil {
		return found[1]
	}
	switch status.Code(err) {
	case codes.Unimplemented:
		return absent
	case codes.PermissionDenied:
		return denied
	case codes.Unavailable:
		if as == plain {
			return noTLS
		}
		return err.Error()
	case codes.Unauthenticated, codes.DeadlineExceeded, codes.Internal:
		return err.Error()
	default: // it got to what the method does
		return served
	}
}
