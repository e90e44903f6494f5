package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// separator cannot be part of a URI, so that no source contains it after escaping.
const separator = "|"

// eventID is the MessageID of a CloudEvent, which is unique by source and id.
func eventID(source, id string) string {
	return bounded(strings.ReplaceAll(source, separator, "%7C") + separator + id)
}

// keyID is the MessageID of a plain body: keys belong to the scope of who chose them.
func keyID(scope, key string) string { return bounded(separator + scope + separator + key) }

// scopeOf is whose the keys of a submitter are. Names of users, unlike those of ServiceAccounts, may hold the separator (auth0|1234), and must
// not become somebody else's key with it. What begins with a percent sign and no escape behind it is nobody's name: callers without a token
// have keys that no token can reach.
func scopeOf(by transport.Submitter) string {
	name := subjectEscape.Replace(by.Subject)
	switch {
	case by.Neighbour:
		return "%neighbour:" + name
	case name == hashed: // or a user of this name could write down what somebody else's long id became
		return "%" + name
	}
	return name
}

// hashed stands in an id in the place of a scope.
const hashed = "sha256"

var subjectEscape = strings.NewReplacer("%", "%25", separator, "%7C")

// bounded replaces an id that is too long for the protocol by its hash.
func bounded(id string) string {
	if len(id) <= protocol.MaxIDBytes {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return separator + hashed + separator + hex.EncodeToString(sum[:])
}
