package producer_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// village lets every address in as the account web while it is open.
type village struct {
	trusted func() bool
	open    atomic.Bool
}

func (v *village) Trusted() bool { return v.trusted() }

func (v *village) Admit(context.Context, netip.Addr) (transport.Submitter, error) {
	if !v.open.Load() {
		return transport.Submitter{}, &transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelAddressUnknown, Reason: "not here"}
	}
	return transport.Submitter{Subject: "web", Neighbour: true}, nil
}

// inhabit gives a pod a village for its namespace.
func (p *pod) inhabit() *village {
	v := &village{}
	v.open.Store(true)
	p.options.Neighbours = func(trusted func() bool) intake.Neighbours {
		v.trusted = trusted
		return v
	}
	return v
}

// tokenless submits without a token.
func (p *pod) tokenless(key string, header ...string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.options.IntakeAddress+"/v1/flows/orders/jobs", strings.NewReader("x"))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	if len(header) == 2 {
		request.Header.Set(header[0], header[1])
	}
	return p.answer(request)
}

// speakHTTP1 makes the client of a pod an older one.
func (p *pod) speakHTTP1() {
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: transport.ClientTLS(p.authority.CAFile(), host), DisableKeepAlives: true}}
	p.protocol = 1
}

func TestTheSwitchTakesEffectWithoutARestart(t *testing.T) {
	p := newPod(t)
	p.inhabit()
	p.start()
	if status, body := p.tokenless("a"); status != 401 || !strings.Contains(body, "token-missing") {
		t.Errorf("before: %d %s", status, body)
	}
	p.configure(func(d *runtimeconfig.Producer) { d.TrustNamespace = true })
	p.until("a neighbour submits", func() bool { status, _ := p.tokenless("a"); return status == 201 })
	p.configure(func(d *runtimeconfig.Producer) { d.TrustNamespace = false })
	p.until("nobody does without a token", func() bool { status, _ := p.tokenless("a"); return status == 401 })
	if status, _ := p.submit("b", ""); status != 201 {
		t.Errorf("with a token: %d", status)
	}
}

// A standby judges who has no token itself: the active producer sees the standby's address, which is that of a pod of the namespace. Whichever
// producer takes a job, its id is the same.
func TestAStandbyLetsNobodyInByItsOwnAddress(t *testing.T) {
	c := newCrew(t, 2)
	villages := map[*pod]*village{}
	for _, p := range c.members {
		villages[p] = p.inhabit()
		p.document.TrustNamespace = true
		p.options.TokenFile = transporttest.TokenFile(t, "member:producer")
		p.start()
	}
	n := c.active()
	active, standby := c.members[n], c.another(n)
	standby.until("it passes on", func() bool { status, _ := standby.tokenless("k"); return status == 201 || status == 200 })
	if status, body := active.tokenless("k"); status != 200 || !strings.Contains(body, `"id":"|%neighbour:web|k"`) {
		t.Errorf("the same key at the active one: %d %s", status, body)
	}
	// What a caller says of itself makes it nobody else. HTTP/1.1 lets it name headers that a proxy has to take away.
	standby.speakHTTP1()
	for name, value := range map[string]string{"Connection": "Workpulling-Neighbour, Workpulling-Hop", "Workpulling-Neighbour": "other"} {
		if status, body := standby.tokenless("k", name, value); status != 200 || !strings.Contains(body, `"id":"|%neighbour:web|k"`) {
			t.Errorf("%s: %s: %d %s", name, value, status, body)
		}
	}
	villages[standby].open.Store(false)
	if status, body := standby.tokenless("l"); status != 401 || !strings.Contains(body, "address-unknown") {
		t.Errorf("a stranger at a standby: %d %s", status, body)
	}
	standby.configure(func(d *runtimeconfig.Producer) { d.TrustNamespace = false })
	standby.until("it asks for a token", func() bool {
		status, body := standby.tokenless("m")
		return status == 401 && strings.Contains(body, "token-missing")
	})
}
