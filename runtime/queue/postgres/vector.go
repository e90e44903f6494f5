package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// vector is one value of each of many entries, as an argument that is an array of the database. The driver's own way makes a slice of them
// first, and then a value to encode of each.
type vector struct {
	length int
	size   int // about that of one value, in bytes
	add    func(buf []byte, i int) []byte
}

func (v vector) encode(element uint32, buf []byte) []byte {
	buf = slices.Grow(buf, 20+v.length*(4+v.size))
	for _, n := range []uint32{1, 0, element, uint32(v.length), 1} { // dimensions, nulls, type, and the length and lower bound of the dimension
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for i := range v.length {
		start := len(buf) + 4
		buf = v.add(append(buf, 0, 0, 0, 0), i)
		binary.BigEndian.PutUint32(buf[start-4:], uint32(len(buf)-start))
	}
	return buf
}

// numbers is the vector of a bigint of each entry.
func numbers(entries []*held, value func(h *held) int64) vector {
	return vector{len(entries), 8, func(buf []byte, i int) []byte { return binary.BigEndian.AppendUint64(buf, uint64(value(entries[i]))) }}
}

// texts is the vector of a bytea of each entry, which has about so many bytes.
func texts(entries []*held, size int, add func(buf []byte, h *held) []byte) vector {
	return vector{len(entries), size, func(buf []byte, i int) []byte { return add(buf, entries[i]) }}
}

// vectorCodec is the driver's codec of an array, which takes a vector as well.
type vectorCodec struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c vectorCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(vector); ok && format == pgtype.BinaryFormatCode {
		return vectorPlan(c.ElementType.OID)
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// vectorPlan encodes vectors whose elements are of a type.
type vectorPlan uint32

// Encode implements pgtype.EncodePlan.
func (p vectorPlan) Encode(value any, buf []byte) ([]byte, error) {
	return value.(vector).encode(uint32(p), buf), nil //nolint:forcetypeassert // what PlanEncode has seen
}

// takeVectors lets a connection take vectors.
func takeVectors(m *pgtype.Map) {
	for _, oid := range []uint32{pgtype.Int8ArrayOID, pgtype.ByteaArrayOID} {
		if t, ok := m.TypeForOID(oid); ok {
			if codec, ok := t.Codec.(*pgtype.ArrayCodec); ok {
				m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: vectorCodec{codec}})
			}
		}
	}
}
