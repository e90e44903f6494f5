package intake

import (
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// keyOf is the MessageID of a key of a caller with a token.
func keyOf(subject, key string) string {
	return keyID(scopeOf(transport.Submitter{Subject: subject}), key)
}

// Two submitters never share a MessageID, whatever their names are made of: the user auth0|1 with the key k is not the user auth0
// with the key 1|k.
func TestKeysOfTwoSubjectsNeverMeet(t *testing.T) {
	for _, pair := range [][2][2]string{
		{{"auth0|1", "k"}, {"auth0", "1|k"}},
		{{"a|b", "k"}, {"a%7Cb", "k"}},
		{{"a%|b", "k"}, {"a%25|b", "k"}},
	} {
		if one, other := keyOf(pair[0][0], pair[0][1]), keyOf(pair[1][0], pair[1][1]); one == other {
			t.Errorf("%q and %q share %s", pair[0], pair[1], one)
		}
	}
	if got := keyOf("system:serviceaccount:shop:web", "k"); got != "|system:serviceaccount:shop:web|k" {
		t.Errorf("the id of a ServiceAccount's key became %q", got)
	}
}

// No name of a user gives the keys of a caller without a token, nor the id that a long one is replaced by.
func TestNobodyHasTheNameOfANeighbour(t *testing.T) {
	theirs := keyID(scopeOf(transport.Submitter{Subject: "web", Neighbour: true}), "k")
	if theirs != "|%neighbour:web|k" {
		t.Errorf("the id of a neighbour's key became %q", theirs)
	}
	for _, name := range []string{"web", "%neighbour:web", "%25neighbour:web", "neighbour:web", "|%neighbour:web", ""} {
		if got := keyOf(name, "k"); got == theirs {
			t.Errorf("the user %q has it too: %s", name, got)
		}
	}
	long := keyOf("alice", strings.Repeat("k", protocol.MaxIDBytes))
	digest := long[strings.LastIndex(long, separator)+1:]
	if got := keyOf("sha256", digest); got == long {
		t.Errorf("the user sha256 has %s too", got)
	}
}
