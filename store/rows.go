package store

import (
	"errors"
	"fmt"
)

// scanner is what a row is read from: the answer of QueryRow, or the row at which Rows stands.
type scanner interface{ Scan(dest ...any) error }

// each has fn read every row of a query, whose answer it takes as Query gives it, and closes the rows.
func each(rows *Rows, err error, fn func(scanner) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns what scan makes of every row of a query, never nil without an error.
func collect[T any](rows *Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	out := []T{}
	err = each(rows, err, func(r scanner) error {
		v, err := scan(r)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// column returns the values of a query with one column.
func column[T any](rows *Rows, err error) ([]T, error) {
	return collect(rows, err, func(r scanner) (v T, err error) {
		err = r.Scan(&v)
		return v, err
	})
}

// keyed returns what scan makes of every row of a query, by key. Of rows with the same key the last counts.
func keyed[K comparable, V any](rows *Rows, err error, scan func(scanner) (K, V, error)) (map[K]V, error) {
	out := map[K]V{}
	err = each(rows, err, func(r scanner) error {
		k, v, err := scan(r)
		out[k] = v
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// pairs returns the rows of a query with two columns: the second by the first.
func pairs[K comparable, V any](rows *Rows, err error) (map[K]V, error) {
	return keyed(rows, err, func(r scanner) (k K, v V, err error) {
		err = r.Scan(&k, &v)
		return k, v, err
	})
}

// optional says whether there is a row: that there is none is no error.
func optional[T any](v T, err error) (T, bool, error) {
	if err != nil {
		var none T
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return none, false, err
	}
	return v, true, nil
}

// orZero returns the zero value where there is no row.
func orZero[T any](v T, err error) (T, error) {
	v, _, err = optional(v, err)
	return v, err
}

// wrap says of an error what was being done; nil stays nil.
func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
