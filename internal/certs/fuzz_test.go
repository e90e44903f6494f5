package certs

import (
	"testing"
	"time"
)

// FuzzDecodeKeyring reads any Secret of the authority: it is refused, or a keyring that can sign and that is written the same again.
func FuzzDecodeKeyring(f *testing.F) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	first, err := newAuthorityPair(at)
	if err != nil {
		f.Fatal(err)
	}
	second, err := newAuthorityPair(at)
	if err != nil {
		f.Fatal(err)
	}
	ring := keyring{current: first, next: &second, closed: true}
	ring.previous = append(ring.previous, second.cert)
	data, err := ring.encode()
	if err != nil {
		f.Fatal(err)
	}
	add := func(d map[string][]byte) {
		f.Add(d[keyCurrentCert], d[keyCurrentKey], d[keyNextCert], d[keyNextKey], d[keyPreviousCert])
	}
	add(data)
	add(map[string][]byte{keyCurrentCert: data[keyCurrentCert], keyCurrentKey: data[keyNextKey]})
	add(map[string][]byte{keyCurrentCert: data[keyCurrentCert], keyCurrentKey: data[keyCurrentKey]})
	add(map[string][]byte{})
	f.Fuzz(func(t *testing.T, currentCert, currentKey, nextCert, nextKey, previous []byte) {
		ring, err := decodeKeyring(map[string][]byte{
			keyCurrentCert: currentCert, keyCurrentKey: currentKey, keyNextCert: nextCert, keyNextKey: nextKey, keyPreviousCert: previous,
		})
		if err != nil {
			return
		}
		for _, cert := range ring.trusted() {
			if cert == nil {
				t.Fatal("a certificate is missing")
			}
		}
		data, err := ring.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := decodeKeyring(data)
		if err != nil || !again.current.cert.Equal(ring.current.cert) || len(again.previous) != len(ring.previous) || (again.next == nil) != (ring.next == nil) {
			t.Errorf("it came back as %v, error %v", again, err)
		}
	})
}
