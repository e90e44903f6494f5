package running

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// header begins a file: a name, and the version of the format.
var header = []byte("wp-run\x00\x02")

// kind says what a record tells.
type kind byte

const (
	begun kind = 1 // a run began
	ended kind = 2 // the run of a MessageID is over
)

// A record is its checksum and the length of its body, both little-endian, and the body. The checksum covers the length too, so that zeros
// are no record.
const (
	sumBytes    = 4
	prefixBytes = sumBytes + 2
)

// errTooLong never meets a worker: names are far shorter.
var errTooLong = errors.New("the name of a flow or the id of a job is too long for the running set")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendBegun adds the record of a run that began.
func appendBegun(to []byte, run *endpoint.LeftRun) ([]byte, error) {
	at := len(to)
	to = append(to, make([]byte, prefixBytes)...)
	to = append(to, byte(begun))
	to = append(to, run.Claim.Ticket[:]...)
	to = binary.AppendVarint(to, run.Claim.StoreSeq)
	to = binary.AppendVarint(to, int64(run.Claim.Attempt))
	to = binary.AppendUvarint(to, uint64(len(run.Flow)))
	to = append(to, run.Flow...)
	to = append(to, run.Claim.MessageID...)
	return to, seal(to[at:])
}

// appendEnded adds the record of a run that is over.
func appendEnded(to []byte, messageID string) ([]byte, error) {
	at := len(to)
	to = append(to, make([]byte, prefixBytes)...)
	to = append(to, byte(ended))
	to = append(to, messageID...)
	return to, seal(to[at:])
}

// seal fills in the prefix of a record.
func seal(record []byte) error {
	n := len(record) - prefixBytes
	if n > math.MaxUint16 {
		return errTooLong
	}
	binary.LittleEndian.PutUint16(record[sumBytes:], uint16(n))
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[sumBytes:], castagnoli))
	return nil
}

// cut takes the body of the first record off raw; ok is false where none is whole.
func cut(raw []byte) (body, rest []byte, ok bool) {
	if len(raw) < prefixBytes {
		return nil, nil, false
	}
	end := prefixBytes + int(binary.LittleEndian.Uint16(raw[sumBytes:]))
	if end > len(raw) || crc32.Checksum(raw[sumBytes:end], castagnoli) != binary.LittleEndian.Uint32(raw) {
		return nil, nil, false
	}
	return raw[prefixBytes:end], raw[end:], true
}

// apply changes runs as the body of a record says. It is false for a body that says nothing.
func apply(runs map[string]endpoint.LeftRun, body []byte) bool {
	if len(body) == 0 {
		return false
	}
	switch kind(body[0]) {
	case ended:
		delete(runs, string(body[1:]))
		return true
	case begun:
		run, ok := parse(body[1:])
		if ok {
			runs[run.Claim.MessageID] = run
		}
		return ok
	}
	return false
}

func parse(body []byte) (run endpoint.LeftRun, ok bool) {
	if len(body) < protocol.TicketBytes {
		return run, false
	}
	run.Claim = protocol.Claim{Ticket: protocol.Ticket(body), State: protocol.ClaimLost}
	body = body[protocol.TicketBytes:]
	seq, n := binary.Varint(body)
	if n <= 0 {
		return run, false
	}
	body = body[n:]
	attempt, n := binary.Varint(body)
	if n <= 0 {
		return run, false
	}
	body = body[n:]
	flow, n := binary.Uvarint(body)
	if n <= 0 || flow >= uint64(len(body)-n) { // of the id at least a byte is left
		return run, false
	}
	body = body[n:]
	run.Flow = string(body[:flow])
	run.Claim.StoreSeq, run.Claim.Attempt, run.Claim.MessageID = seq, int(attempt), string(body[flow:])
	return run, true
}

// foreign reports whether raw is a running set of another version: of this format, or of the lines of text that came before it.
func foreign(raw []byte) bool {
	name := len(header) - 1
	if bytes.HasPrefix(raw, header[:name]) {
		return len(raw) > name && raw[name] != header[name] && raw[name] != 0 // which no version has
	}
	sum, text, found := bytes.Cut(raw[:min(len(raw), 10)], []byte(" "))
	return found && len(sum) == 8 && bytes.HasPrefix(text, []byte("{"))
}
