//! The paper's applications: copy and mail
