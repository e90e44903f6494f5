package transport

// Verbs of a Submitter's access to workpullingflows/jobs, as an Authenticator is asked for them.
const (
	VerbCreate = "create"
	VerbGet    = "get"
	VerbList   = "list"
	VerbUpdate = "update"
	VerbDelete = "delete"
	VerbRead   = "read" // payloads, which no other verb shows
)

// Verbs are all of them.
func Verbs() []string {
	return []string{VerbCreate, VerbGet, VerbList, VerbUpdate, VerbDelete, VerbRead}
}
