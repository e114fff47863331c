package store

// only narrows a query to rows whose column is one of ids: nil narrows nothing, an empty list leaves no row. It returns what to append to
// the WHERE clause and to its arguments.
func only(column string, ids []string) (condition string, args []any) {
	switch {
	case ids == nil:
		return "", nil
	case len(ids) == 0:
		return " AND 1 = 0", nil
	}
	args = make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return " AND " + column + " IN (" + marks(len(ids)) + ")", args
}
