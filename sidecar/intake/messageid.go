package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// separator cannot be part of a URI, so that no source contains it after escaping.
const separator = "|"

// eventID is the MessageID of a CloudEvent, which is unique by source and id.
func eventID(source, id string) string {
	return bounded(strings.ReplaceAll(source, separator, "%7C") + separator + id)
}

// keyID is the MessageID of a plain body: keys belong to the subject that chose them. Names of users, unlike those of ServiceAccounts,
// may hold the separator (auth0|1234), and must not become somebody else's key with it.
func keyID(subject, key string) string {
	return bounded(separator + subjectEscape.Replace(subject) + separator + key)
}

var subjectEscape = strings.NewReplacer("%", "%25", separator, "%7C")

// bounded replaces an id that is too long for the protocol by its hash.
func bounded(id string) string {
	if len(id) <= protocol.MaxIDBytes {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return separator + "sha256" + separator + hex.EncodeToString(sum[:])
}
