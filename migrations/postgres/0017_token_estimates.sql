-- What a request may have cost whose cost nobody knows: for budgets alone. NULL = nobody can say that either, or its cost is known.
ALTER TABLE model_requests ADD COLUMN estimate_nano BIGINT;
