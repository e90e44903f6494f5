//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// intruder speaks a worker's protocol to the producer of a flow, from this machine, with whatever token it is given.
type intruder struct {
	bed      *bed
	flow     string
	producer string
	peer     transport.Peer
}

// intruder dials the pod of a producer as a worker of the pool would: with the CA, the name and the port of its configuration.
func (b *bed) intruder(ctx context.Context, pool, flow, producer string) *intruder {
	GinkgoHelper()
	text, err := b.get(ctx, "get", "configmap", runtimeconfig.WorkerConfigName(pool, flow), "-o", `jsonpath={.data.config\.json}`)
	Expect(err).NotTo(HaveOccurred())
	var document runtimeconfig.Worker
	Expect(json.Unmarshal([]byte(text), &document)).To(Succeed())
	bundle, err := b.get(ctx, "get", "configmap", "workpulling-ca", "-o", `jsonpath={.data.ca\.crt}`)
	Expect(err).NotTo(HaveOccurred())
	ca := filepath.Join(GinkgoT().TempDir(), "ca.crt")
	Expect(os.WriteFile(ca, []byte(bundle), 0o600)).To(Succeed())
	address, err := b.get(ctx, "get", "pod", producer, "-o", "jsonpath={.status.podIP}")
	Expect(err).NotTo(HaveOccurred())
	return &intruder{bed: b, flow: flow, producer: producer, peer: transport.Peer{
		Address: net.JoinHostPort(address, "9443"), TLS: transport.ClientTLS(ca, document.AllFlows()[0].ProducerHost),
	}}
}

// register asks for a binding and returns the answer, which is nil where the stream ended without one.
func (i *intruder) register(ctx context.Context, token string, incarnation protocol.Incarnation) (protocol.ToWorker, error) {
	peer := i.peer
	peer.Token = func(context.Context) (string, error) { return token, nil }
	stream, err := peer.DialWorker(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	register := protocol.RegisterConsumer{Version: protocol.Version, Nonce: "intruder-nonce", Incarnation: incarnation, Window: 1}
	if err := stream.Send(register); err != nil {
		return nil, err
	}
	for {
		answer, err := stream.Recv()
		switch answer.(type) {
		case protocol.RegistrationAck, protocol.RegistrationRefused:
			return answer, nil
		}
		if err != nil && !errors.Is(err, protocol.ErrInvalid) {
			return nil, err
		}
	}
}

// refusals is how many peers the producer has refused for a reason.
func (i *intruder) refusals(ctx context.Context, reason transport.Label) (float64, error) {
	metrics, err := kubectl.PodMetrics(ctx, i.bed.namespace, i.producer)
	if err != nil {
		return 0, err
	}
	return metrics.Total("workpulling_flow_refused_identities_total", "reason", string(reason)), nil
}

// isRefused expects that a registration for a pod, by a process that it never had, is refused.
func (i *intruder) isRefused(ctx context.Context, token, podUID string, reason transport.Label) {
	GinkgoHelper()
	i.isRefusedAs(ctx, token, protocol.Incarnation{PodUID: podUID, BootNonce: "intruder"}, reason)
}

// isRefusedAs expects that a registration is answered with a refusal and counted under its reason, at least once.
func (i *intruder) isRefusedAs(ctx context.Context, token string, incarnation protocol.Incarnation, reason transport.Label) {
	GinkgoHelper()
	before, err := i.refusals(ctx, reason)
	Expect(err).NotTo(HaveOccurred())
	answer, err := i.register(ctx, token, incarnation)
	Expect(err).NotTo(HaveOccurred())
	Expect(answer).To(BeAssignableToTypeOf(protocol.RegistrationRefused{}), "it was taken for a worker")
	refused := answer.(protocol.RegistrationRefused)
	Expect(refused.Nonce).To(Equal("intruder-nonce"))
	Expect(refused.RetryAfter).To(BeNumerically(">", 0))
	after, err := i.refusals(ctx, reason)
	Expect(err).NotTo(HaveOccurred())
	Expect(after).To(BeNumerically(">", before), "%s: %+v", reason, refused)
}
