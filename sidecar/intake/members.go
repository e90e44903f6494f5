package intake

import (
	"bytes"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Attributes of an event that have a place of their own among its members. The first attributeTexts of them are text.
const (
	attributeVersion = iota
	attributeID
	attributeSource
	attributeType
	attributeSubject
	attributeTime
	attributeContentType
	attributeTexts

	attributeSchema = iota - 1
	attributeData
	attributeBase64
	attributes
)

// attributeOf is which one a name is; -1 for any other.
func attributeOf(name []byte) int {
	switch string(name) {
	case "specversion":
		return attributeVersion
	case "id":
		return attributeID
	case "source":
		return attributeSource
	case "type":
		return attributeType
	case "subject":
		return attributeSubject
	case "time":
		return attributeTime
	case "datacontenttype":
		return attributeContentType
	case "dataschema":
		return attributeSchema
	case "data":
		return attributeData
	case "data_base64":
		return attributeBase64
	default:
		return -1
	}
}

// members are what an event in JSON format consists of. Each value is as it stands there, with the space before it.
type members struct {
	known  [attributes][]byte // nil: it is not there
	others []member
	odd    bool // one that is known is there twice, of which the last one counts, or there are more others than a job may have headers
}

type member struct{ name, value []byte }

func (m *members) clear() {
	clear(m.others)
	*m = members{others: m.others[:0]}
}

func (m *members) add(name, value []byte) {
	at := attributeOf(name)
	switch {
	case at >= 0:
		m.odd = m.odd || m.known[at] != nil
		m.known[at] = value
	case len(m.others) < protocol.MaxHeaders:
		m.others = append(m.others, member{name, value})
	default:
		m.odd = true
	}
}

// broken tells whether there is binary data that is no string: a number would pass for Base64, or break who looks for its quotes.
func (m *members) broken() bool {
	value := trimSpace(m.known[attributeBase64])
	return len(value) > 0 && value[0] != '"' && value[0] != 'n'
}

// texts are the attributes that are text; ok is false if one of them is not in the usual form, or is one that hardly any event has.
func (m *members) texts() (texts [attributeTexts][]byte, ok bool) {
	if m.odd || m.known[attributeSchema] != nil {
		return texts, false
	}
	for at := range texts {
		if m.known[at] == nil {
			continue
		}
		if texts[at], ok = plain(m.known[at]); !ok {
			return texts, false
		}
	}
	return texts, true
}

func trimSpace(value []byte) []byte {
	for len(value) > 0 && (value[0] == ' ' || value[0] == '\t' || value[0] == '\r' || value[0] == '\n') {
		value = value[1:]
	}
	return value
}

// plain is the text of a JSON string that is neither empty nor escaped.
func plain(value []byte) (text []byte, ok bool) {
	value = trimSpace(value)
	if len(value) <= len(`""`) || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// hasExponent tells whether there is a number such as 1e9 in a JSON value.
func hasExponent(value []byte) bool {
	for at := 0; at < len(value); at++ {
		switch value[at] {
		case '"':
			for at++; value[at] != '"'; at++ {
				if value[at] == '\\' {
					at++
				}
			}
		case 'e', 'E':
			if digit := value[at-1]; digit >= '0' && digit <= '9' {
				return true
			}
		}
	}
	return false
}
