package apiclient

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
)

func TestGet(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/known" {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"name":"x"}`)
	}))
	defer server.Close()
	authority, err := pki.NewAuthority("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(server.URL, trusted, pair)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Name string }
	if err := c.Get(t.Context(), "/known", &got); err != nil || got.Name != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := c.Get(t.Context(), "/known", nil); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), "/unknown", nil); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("an unknown path: %v", err)
	}
	stranger, err := New(server.URL, authority.Cert, pair)
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Get(t.Context(), "/known", nil); err == nil {
		t.Error("a server of another CA was trusted")
	}
	if _, err := New(server.URL, []byte("no certificate"), pair); err == nil {
		t.Error("nonsense was accepted as CA")
	}
}
