"""Operations on nodes."""
