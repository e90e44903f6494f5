package transport_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// control answers WorkerControl, to have something to call.
type control struct {
	pb.UnimplementedWorkerControlServer
}

func (control) GetStatus(context.Context, *pb.GetStatusRequest) (*pb.WorkerStatus, error) {
	return &pb.WorkerStatus{PodUid: "uid"}, nil
}

func serve(t *testing.T, server *grpc.Server) string {
	t.Helper()
	pb.RegisterWorkerControlServer(server, control{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return listener.Addr().String()
}

func call(t *testing.T, peer transport.Peer) error {
	t.Helper()
	conn, err := peer.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = pb.NewWorkerControlClient(conn).GetStatus(ctx, &pb.GetStatusRequest{})
	return err
}

func certificate(t *testing.T, authority *transporttest.Authority, name string) *transport.Certificate {
	t.Helper()
	c, err := transport.NewCertificate(authority.Issue(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerIsVerifiedByNameAndAuthority(t *testing.T) {
	authority, stranger := transporttest.NewAuthority(t), transporttest.NewAuthority(t)
	address := serve(t, transport.NewServer(transport.ServerTLS(certificate(t, authority, "server"))))
	for name, c := range map[string]struct {
		caFile, host string
		fine         bool
	}{
		"right":             {authority.CAFile(), "server", true},
		"another name":      {authority.CAFile(), "other", false},
		"another authority": {stranger.CAFile(), "server", false},
		"no bundle":         {t.TempDir() + "/none", "server", false},
	} {
		if err := call(t, transport.Peer{Address: address, TLS: transport.ClientTLS(c.caFile, c.host)}); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A renewed certificate, even of a new authority, is served and trusted without a restart (B-255).
func TestCertificatesAndBundlesAreReadAnew(t *testing.T) {
	authority := transporttest.NewAuthority(t)
	served := certificate(t, authority, "server")
	address := serve(t, transport.NewServer(transport.ServerTLS(served)))
	peer := transport.Peer{Address: address, TLS: transport.ClientTLS(authority.CAFile(), "server")}
	if err := call(t, peer); err != nil {
		t.Fatal(err)
	}
	next := transporttest.NewAuthority(t)
	certFile, keyFile := authority.Issue(t, "server") // the paths that are served
	newCert, newKey := next.Issue(t, "server")
	move(t, newCert, certFile)
	if err := call(t, peer); err != nil {
		t.Errorf("half a replacement broke what was there: %v", err)
	}
	if served.Err() == nil {
		t.Error("half a replacement is not reported")
	}
	move(t, newKey, keyFile)
	if err := call(t, peer); err == nil {
		t.Error("the new certificate is not served, or an unknown authority is trusted")
	}
	move(t, next.CAFile(), authority.CAFile())
	if err := call(t, peer); err != nil {
		t.Errorf("the new bundle is not read: %v", err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".new", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	// Two versions within one tick of the file system's clock must still differ.
	later := time.Now().Add(time.Duration(len(raw)) * time.Second)
	if err := errors.Join(os.Chtimes(to+".new", later, later), os.Rename(to+".new", to)); err != nil {
		t.Fatal(err)
	}
}

// The server that only the operator may call asks for a certificate of the authority, for clients, with the operator's name: each of the
// three alone refuses.
func TestOnlyTheNamedClientIsServed(t *testing.T) {
	authority, stranger := transporttest.NewAuthority(t), transporttest.NewAuthority(t)
	address := serve(t, transport.NewServer(transport.MutualServerTLS(certificate(t, authority, "worker"), authority.CAFile(), "operator")))
	client := func(of *transporttest.Authority, name string, usages ...x509.ExtKeyUsage) error {
		certFile, keyFile := of.IssueFor(t, name, usages...)
		config := transporttest.WithCertificate(t, transport.ClientTLS(authority.CAFile(), "worker"), certFile, keyFile)
		return call(t, transport.Peer{Address: address, TLS: config})
	}
	if err := client(authority, "operator", x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"nobody":                           call(t, transport.Peer{Address: address, TLS: transport.ClientTLS(authority.CAFile(), "worker")}),
		"another name":                     client(authority, "other", x509.ExtKeyUsageClientAuth),
		"another authority":                client(stranger, "operator", x509.ExtKeyUsageClientAuth),
		"a server's certificate":           client(authority, "worker", x509.ExtKeyUsageServerAuth),
		"a server's of the operator":       client(authority, "operator", x509.ExtKeyUsageServerAuth),
		"a certificate without any usages": client(authority, "operator", x509.ExtKeyUsageEmailProtection),
		"a token": call(t, transport.Peer{
			Address: address, TLS: transport.ClientTLS(authority.CAFile(), "worker"), TokenFile: transporttest.TokenFile(t, "operator"),
		}),
	} {
		if err == nil {
			t.Errorf("%s is served", name)
		}
	}
}

// A certificate for clients serves nobody: the operator's own would otherwise pass for a server of its name.
func TestAClientsCertificateIsNoServers(t *testing.T) {
	authority := transporttest.NewAuthority(t)
	served, err := transport.NewCertificate(authority.IssueFor(t, "server", x509.ExtKeyUsageClientAuth))
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, transport.NewServer(transport.ServerTLS(served)))
	if err := call(t, transport.Peer{Address: address, TLS: transport.ClientTLS(authority.CAFile(), "server")}); err == nil {
		t.Error("a client's certificate was believed of a server")
	}
}

// Files that cannot be used are counted, told of once a minute, and harm nothing; nobody has to connect for that.
func TestBadFilesAreFollowed(t *testing.T) {
	authority := transporttest.NewAuthority(t)
	certFile, keyFile := authority.Issue(t, "server")
	c, err := transport.NewCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	first := c.Expires()
	whole, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	other := transporttest.NewAuthority(t)
	otherCert, otherKey := other.Issue(t, "server")
	synctest.Test(t, func(t *testing.T) {
		var complaints, served atomic.Int32
		log := funcr.New(func(_, line string) {
			if strings.Contains(line, "Cannot use") {
				complaints.Add(1)
			}
			if strings.Contains(line, "Serving with a new certificate") {
				served.Add(1)
			}
		}, funcr.Options{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Follow(ctx, log)
		}()
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		pass(time.Minute)
		if complaints.Load() != 0 || served.Load() != 0 || c.Failures() != 0 {
			t.Errorf("at rest: %d complaints, %d new certificates", complaints.Load(), served.Load())
		}
		for _, tc := range []struct {
			name    string
			content []byte
		}{{"half", whole[:len(whole)/2]}, {"empty", nil}, {"another's", read(t, otherCert)}} { // the last stays, for the key to follow
			complaints.Store(0)
			replace(t, certFile, tc.content)
			before := c.Failures()
			pass(3 * time.Minute)
			if complaints.Load() < 3 || complaints.Load() > 4 || c.Failures() == before || c.Err() == nil || !c.Expires().Equal(first) {
				t.Errorf("%s: %d complaints in 3 minutes, %d failures, %v", tc.name, complaints.Load(), c.Failures(), c.Err())
			}
		}
		replace(t, keyFile, read(t, otherKey)) // now the pair is whole
		pass(20 * time.Second)
		if c.Err() != nil || served.Load() != 1 {
			t.Errorf("a whole pair: %v, %d new certificates", c.Err(), served.Load())
		}
		complaints.Store(0)
		if err := os.Remove(keyFile); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if complaints.Load() != 1 || c.Err() == nil {
			t.Errorf("a missing file: %d complaints, %v", complaints.Load(), c.Err())
		}
		stop()
		<-done
	})
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	move(t, next, file)
}

func TestReadBundle(t *testing.T) {
	a, b := transporttest.NewAuthority(t), transporttest.NewAuthority(t)
	both := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(both, append(read(t, a.CAFile()), read(t, b.CAFile())...), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := transport.ReadBundle(both)
	if err != nil || got.Certificates != 2 || got.Expires.Before(time.Now()) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := transport.ReadBundle(both + ".none"); err == nil {
		t.Error("a bundle that is not there was read")
	}
}

// A stream outlives the certificate and the authority that it began with: only new handshakes look at files.
func TestALongStreamOutlivesItsAuthority(t *testing.T) {
	authority, next := transporttest.NewAuthority(t), transporttest.NewAuthority(t)
	served := certificate(t, authority, "server")
	address := serve(t, transport.NewServer(transport.ServerTLS(served)))
	peer := transport.Peer{Address: address, TLS: transport.ClientTLS(authority.CAFile(), "server")}
	conn, err := peer.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func() error {
		_, err := pb.NewWorkerControlClient(conn).GetStatus(t.Context(), &pb.GetStatusRequest{})
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := authority.Issue(t, "server")
	newCert, newKey := next.Issue(t, "server")
	move(t, newCert, certFile)
	move(t, newKey, keyFile)
	move(t, next.CAFile(), authority.CAFile())
	if err := call(t, peer); err != nil {
		t.Fatalf("a new connection: %v", err)
	}
	if err := ask(); err != nil {
		t.Errorf("the old connection: %v", err)
	}
}

// A dead address must not hold up the next try.
func TestDialEndsInTime(t *testing.T) {
	authority := transporttest.NewAuthority(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	peer := transport.Peer{Address: silent.Addr().String(), TLS: transport.ClientTLS(authority.CAFile(), "x"), Timeout: 100 * time.Millisecond}
	began := time.Now()
	if _, err := peer.DialWorker(t.Context()); err == nil {
		t.Error("a stream to a server that says nothing")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("gave up after %s", took)
	}
}

func TestOutboxNeverBlocksAndKeepsOrder(t *testing.T) {
	out := transport.NewOutbox[int]()
	for i := range 100 {
		out.Offer(i)
	}
	out.Close()
	out.Offer(100) // after the end: dropped
	var sent []int
	if err := out.Run(t.Context(), func(i ...int) error { sent = append(sent, i...); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 100 || sent[0] != 0 || sent[99] != 99 {
		t.Errorf("sent %v", sent)
	}
}

func TestOutboxOfASlowPeerIsAborted(t *testing.T) {
	out := transport.NewOutbox[int]()
	for i := range transport.OutboxDepth + 1 {
		out.Offer(i)
	}
	<-out.Aborted()
	if err := out.Run(t.Context(), func(...int) error { return nil }); !errors.Is(err, transport.ErrSlowPeer) {
		t.Errorf("ended with %v", err)
	}
	if !errors.Is(out.Err(), transport.ErrSlowPeer) {
		t.Errorf("aborted with %v", out.Err())
	}
}

// What is in no hurry goes with the next that is, or after a moment, or with the end.
func TestOutboxLetsMessagesWaitForCompany(t *testing.T) {
	batches := make(chan []int, 10)
	out := transport.NewOutbox[int]()
	out.Unhurried = func(i int) bool { return i < 0 }
	ended := make(chan error, 1)
	go func() {
		ended <- out.Run(t.Context(), func(messages ...int) error {
			batches <- slices.Clone(messages)
			return nil
		})
	}()
	out.Offer(-1)
	if got := <-batches; !slices.Equal(got, []int{-1}) {
		t.Errorf("alone: %v", got)
	}
	out.Offer(-2)
	out.Offer(3)
	got := <-batches
	if slices.Equal(got, []int{-2}) { // the machine was so slow that its moment was over
		got = append(got, <-batches...)
	}
	if !slices.Equal(got, []int{-2, 3}) {
		t.Errorf("with company: %v", got)
	}
	out.Offer(-4)
	out.Close()
	if got := <-batches; !slices.Equal(got, []int{-4}) {
		t.Errorf("at the end: %v", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMalformedFramesUseUpABudget(t *testing.T) {
	now := time.Unix(1000, 0)
	penalties := transport.NewPenalties(func() time.Time { return now })
	budget, other := penalties.Budget("bad"), penalties.Budget("good")
	spent := 0
	for budget.Spend() == nil {
		spent++
	}
	if spent == 0 || spent > 100 {
		t.Errorf("%d malformed frames are tolerated at once", spent)
	}
	if penalties.Check("bad") == nil || penalties.Check("good") != nil || other.Spend() != nil {
		t.Error("the penalty is not for the bad peer alone")
	}
	if again := penalties.Check("bad"); again.RetryAfter <= 0 || again.Status() == nil {
		t.Errorf("%v does not say when to come back", again)
	}
	now = now.Add(time.Hour)
	if refusal := penalties.Check("bad"); refusal != nil {
		t.Errorf("after an hour: %v", refusal)
	}
}

func TestBearer(t *testing.T) {
	for value, want := range map[string]string{"Bearer abc": "abc", "bearer  abc ": "abc", "Basic abc": "", "Bearer": "", "": "", "Bearer ": ""} {
		got, err := transport.ParseBearer(value)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
}

func TestRefusalsHaveTheRightStatus(t *testing.T) {
	for label, want := range map[transport.Label]codes.Code{
		transport.LabelTokenExpired: codes.Unauthenticated, transport.LabelPodForeign: codes.PermissionDenied,
		transport.LabelUnavailable: codes.Unavailable, transport.LabelCoolingDown: codes.Unavailable,
	} {
		if got := status.Code((&transport.Refusal{Label: label}).Status()); got != want {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
	if refusal := transport.AsRefusal(errors.New("boom")); refusal.Label != transport.LabelUnavailable || refusal.RetryAfter <= 0 {
		t.Errorf("an error that is no refusal became %v", refusal)
	}
}

// What verifies the operator is beside the bundle. Without it, on a machine of one's own or with an older operator, the bundle does.
func TestOperatorCA(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if got := transport.OperatorCA(bundle); got != bundle {
		t.Errorf("alone: %s", got)
	}
	narrow := filepath.Join(filepath.Dir(bundle), "operator-ca.crt")
	if err := os.WriteFile(narrow, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := transport.OperatorCA(bundle); got != narrow {
		t.Errorf("beside it: %s", got)
	}
}
