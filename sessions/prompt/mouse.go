package prompt

import "bytes"

// IsMouseReport reports whether p consists only of a terminal's mouse and focus reports: nobody typed it.
func IsMouseReport(p []byte) bool {
	if len(p) < 3 {
		return false
	}
	for len(p) > 0 {
		rest, ok := bytes.CutPrefix(p, []byte("\x1b["))
		if !ok || len(rest) == 0 {
			return false
		}
		switch rest[0] {
		case 'I', 'O': // focus gained or lost
			p = rest[1:]
		case 'M': // a button, and two coordinates
			if len(rest) < 4 {
				return false
			}
			p = rest[4:]
		case '<':
			end := bytes.IndexAny(rest, "Mm")
			if end < 0 || len(bytes.Trim(rest[1:end], "0123456789;")) > 0 {
				return false
			}
			p = rest[end+1:]
		default:
			return false
		}
	}
	return true
}
