package fencing

import (
	"encoding/base64"
	"testing"
)

// FuzzForOthers reads any token: it never panics, and what is for our audience, alone or among others, is never turned away for it.
func FuzzForOthers(f *testing.F) {
	for _, claims := range []string{`{"aud":"workpulling.dev"}`, `{"aud":["a","workpulling.dev"]}`, `{"aud":[]}`, `{"aud":1}`, `{`, ``} {
		f.Add("h."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".s", claims)
	}
	f.Add("..", "")
	f.Fuzz(func(t *testing.T, token, other string) {
		_ = forOthers(token, "workpulling.dev")
		ours := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["workpulling.dev"],"x":"`+base64.StdEncoding.EncodeToString([]byte(other))+`"}`)) + ".s"
		if forOthers(ours, "workpulling.dev") {
			t.Errorf("%s was turned away", ours)
		}
	})
}
