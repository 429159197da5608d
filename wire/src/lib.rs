//! Catena's data types and their bytes
