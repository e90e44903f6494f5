package networkpolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppPorts says what becomes of the ports that are not the runtime's.
type AppPorts string

const (
	// AppPortsOpen leaves them open to everybody, as they are without any policy.
	AppPortsOpen AppPorts = "Open"
	// AppPortsClosed leaves them to other policies of the same pods: what none of these opens is closed.
	AppPortsClosed AppPorts = "Closed"
)

// MarshalText writes the word.
func (a AppPorts) MarshalText() ([]byte, error) { return []byte(a), nil }

// UnmarshalText refuses any other word.
func (a *AppPorts) UnmarshalText(text []byte) error {
	switch read := AppPorts(text); read {
	case AppPortsOpen, AppPortsClosed:
		*a = read
		return nil
	}
	return fmt.Errorf("%s or %s is needed, not %q", AppPortsOpen, AppPortsClosed, text)
}

// Settings are the same for all flows and pools.
type Settings struct {
	// Enabled says whether there are policies at all; the zero value is none.
	Enabled bool
	// OperatorNamespace and OperatorPods select the operator's pods.
	OperatorNamespace string
	OperatorPods      map[string]string
	// Submitters may reach the intake, Scrapers the metrics; nobody may where one is empty. A peer that has a podSelector alone is of the
	// namespace of the flow or pool.
	Submitters, Scrapers Peers
	// AppPorts is AppPortsOpen or AppPortsClosed.
	AppPorts AppPorts
}

// Peers are who may open connections. Its text form is the JSON of a list of peers as a NetworkPolicy has them.
type Peers []networkingv1.NetworkPolicyPeer

// MarshalText writes the JSON.
func (p Peers) MarshalText() ([]byte, error) {
	if len(p) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]networkingv1.NetworkPolicyPeer(p))
}

// UnmarshalText reads the JSON, and refuses what the API server would.
func (p *Peers) UnmarshalText(text []byte) error {
	var read []networkingv1.NetworkPolicyPeer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("reading a list of peers: %w", err)
	}
	if decoder.More() {
		return errors.New("there is more than one list of peers")
	}
	for i, peer := range read {
		if err := check(peer); err != nil {
			return fmt.Errorf("peer %d: %w", i, err)
		}
	}
	*p = read
	return nil
}

func check(peer networkingv1.NetworkPolicyPeer) error {
	selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
	if selects == (peer.IPBlock != nil) {
		return errors.New("either selectors or an ipBlock is needed")
	}
	for _, selector := range []*metav1.LabelSelector{peer.PodSelector, peer.NamespaceSelector} {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return err
		}
	}
	if peer.IPBlock == nil {
		return nil
	}
	block, err := netip.ParsePrefix(peer.IPBlock.CIDR)
	if err != nil {
		return err
	}
	for _, text := range peer.IPBlock.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if !block.Contains(except.Addr()) || except.Bits() <= block.Bits() {
			return fmt.Errorf("%s is not within %s", text, block)
		}
	}
	return nil
}

// SameNamespace are all pods of the namespace of the flow or pool.
func SameNamespace() Peers { return Peers{{PodSelector: &metav1.LabelSelector{}}} }
