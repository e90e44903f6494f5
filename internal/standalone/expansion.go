package standalone

import "strings"

// expand replaces $(NAME) by the value of NAME as Kubernetes does in command, args and env: an unknown name stays as it is, and $$ is a
// dollar sign that begins nothing.
func expand(text string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at+1 == len(text) {
			break
		}
		out.WriteString(text[:at])
		rest := text[at+1:]
		switch rest[0] {
		case '$':
			out.WriteByte('$')
			text = rest[1:]
		case '(':
			name, after, closed := strings.Cut(rest[1:], ")")
			if !closed {
				out.WriteString("$(")
				text = rest[1:]
				continue
			}
			if value, ok := lookup(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			text = after
		default:
			out.WriteByte('$')
			out.WriteByte(rest[0])
			text = rest[1:]
		}
	}
	out.WriteString(text)
	return out.String()
}
