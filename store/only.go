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
	return " AND " + column + " IN (" + Marks(len(ids)) + ")", args
}

// among says that column is the team a statement is given. Where rows are named, it decides about these and does not look for them: SQLite would
// go through the whole team by an index of its own otherwise, as it knows nothing of how many are named and how many there are.
func among(column string, named []string) string {
	if named != nil {
		column += ` || ''`
	}
	return column + ` = {team?}`
}
