package fencing

import (
	"encoding/base64"
	"testing"
)

// FuzzPeek reads any token: it never panics, and what is for our audience, alone or among others, is never turned away for it.
func FuzzPeek(f *testing.F) {
	for _, claims := range []string{`{"aud":"workpulling.dev"}`, `{"aud":["a","workpulling.dev"]}`, `{"aud":[]}`, `{"aud":1}`, `{`, ``} {
		f.Add("h."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".s", claims)
	}
	f.Add("..", "")
	f.Fuzz(func(t *testing.T, token, other string) {
		_ = peek(token, "workpulling.dev", nil)
		ours := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["workpulling.dev"],"x":"`+base64.StdEncoding.EncodeToString([]byte(other))+`"}`)) + ".s"
		if peek(ours, "workpulling.dev", nil) != tokenFine {
			t.Errorf("%s was turned away", ours)
		}
	})
}

// FuzzParseMember reads what anybody may have recorded as the owner of a queue: it is refused, or a member that records itself the same.
func FuzzParseMember(f *testing.F) {
	f.Add(Member{Pod: "p-0", PodUID: "u", BootNonce: "b", Turn: 2, Intake: "10.0.0.1:8443", Streams: "[::1]:9443"}.Owner())
	for _, owner := range []string{"", "null", "{}", `"a pod"`, `{"turn":-1}`, `{"turn":1e99}`, `{"pod":"\ud800"}`} {
		f.Add(owner)
	}
	f.Fuzz(func(t *testing.T, owner string) {
		m, err := ParseMember(owner)
		if err != nil {
			return
		}
		if again, err := ParseMember(m.Owner()); err != nil || again != m {
			t.Errorf("%+v became %+v, error %v", m, again, err)
		}
		if !m.sameProcess(m) {
			t.Errorf("%+v is no turn of its own process", m)
		}
	})
}
