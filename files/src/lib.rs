//! The file-service interface, and its embedded implementation over one directory
