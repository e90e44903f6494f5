package intake

import "testing"

// Two submitters never share a MessageID, whatever their names are made of: the user auth0|1 with the key k is not the user auth0
// with the key 1|k.
func TestKeysOfTwoSubjectsNeverMeet(t *testing.T) {
	for _, pair := range [][2][2]string{
		{{"auth0|1", "k"}, {"auth0", "1|k"}},
		{{"a|b", "k"}, {"a%7Cb", "k"}},
		{{"a%|b", "k"}, {"a%25|b", "k"}},
	} {
		if one, other := keyID(pair[0][0], pair[0][1]), keyID(pair[1][0], pair[1][1]); one == other {
			t.Errorf("%q and %q share %s", pair[0], pair[1], one)
		}
	}
	if got := keyID("system:serviceaccount:shop:web", "k"); got != "|system:serviceaccount:shop:web|k" {
		t.Errorf("the id of a ServiceAccount's key became %q", got)
	}
}
