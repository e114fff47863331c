package store

import (
	"strconv"
	"strings"
)

// rebind turns `?` into $1, $2, ... for PostgreSQL.
func (db *DB) rebind(query string) string {
	if db.dialect != Postgres {
		return query
	}
	return rebind(query)
}

// rebind numbers the `?` marks of query, leaving string literals, quoted names and comments as they are.
func rebind(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	for i := 0; i < len(query); {
		end := i + 1
		switch c := query[i]; {
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			i++
			continue
		case c == '\'' || c == '"': // a doubled quote reads as two literals side by side: the same for us
			end = after(query, i+1, string(c))
		case strings.HasPrefix(query[i:], "--"):
			end = after(query, i, "\n")
		case strings.HasPrefix(query[i:], "/*"):
			end = after(query, i+2, "*/")
		}
		b.WriteString(query[i:end])
		i = end
	}
	return b.String()
}

// after returns the index behind the next mark at or after i, the end of s when there is none.
func after(s string, i int, mark string) int {
	if n := strings.Index(s[i:], mark); n >= 0 {
		return i + n + len(mark)
	}
	return len(s)
}
