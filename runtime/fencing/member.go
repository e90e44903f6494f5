package fencing

import (
	"encoding/json"
	"fmt"
)

// Member is one try of one producer process to own a shared queue: what Load records as the owner, and where others find it. Nothing
// in it is authority: the epoch decides who owns the queue, and whoever is called at an address proves its name by TLS.
type Member struct {
	Pod       string `json:"pod"`
	PodUID    string `json:"uid"`
	BootNonce string `json:"boot"`
	// Turn numbers the tries of one process, from 1.
	Turn int64 `json:"turn"`
	// Intake and Streams are host:port of the HTTPS intake and of the gRPC services.
	Intake  string `json:"intake"`
	Streams string `json:"streams"`
}

// Owner is the owner argument of Load.
func (m Member) Owner() string {
	raw, err := json.Marshal(m)
	if err != nil { // impossible for strings and a number
		return ""
	}
	return string(raw)
}

// ParseMember reads what a member recorded. The owner of data that another kind of writer loaded is no member.
func ParseMember(owner string) (Member, error) {
	var m Member
	if err := json.Unmarshal([]byte(owner), &m); err != nil {
		return Member{}, fmt.Errorf("parsing the owner of the queue: %w", err)
	}
	return m, nil
}

// Holder names the process in a Lease. All turns of one process are one holder.
func (m Member) Holder() string { return m.Pod + "/" + m.PodUID + "/" + m.BootNonce }

// sameProcess says whether two members are turns of one process.
func (m Member) sameProcess(other Member) bool {
	return m.PodUID == other.PodUID && m.BootNonce == other.BootNonce
}
